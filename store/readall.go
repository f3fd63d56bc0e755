package store

import (
	"context"

	"github.com/headrace/headrace/nd"
)

// ReadAll reads a whole object of at most limit bytes; a longer one is
// nd.ErrBudget and is not read. It is meant for metadata.
func ReadAll(ctx context.Context, st Store, key string, limit int64) ([]byte, error) {
	size, err := st.Size(ctx, key)
	if err != nil {
		return nil, err
	}
	if size > limit {
		err := nd.Errorf(nd.ErrBudget, "object of %d bytes, at most %d are read whole", size, limit)
		return nil, nd.At(err, nd.Place{File: key})
	}
	p := make([]byte, size)
	if err := st.ReadAt(ctx, key, p, 0); err != nil {
		return nil, err
	}
	return p, nil
}
