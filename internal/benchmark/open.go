package benchmark

import (
	"context"

	"github.com/headrace/headrace/internal/plainread"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/store"
)

// openArrays opens the arrays that have room for a crop; the others are left
// out, as damacy does.
func openArrays(ctx context.Context, refs []pipeline.ArrayRef, crop []int64) (list arrays, err error) {
	for _, ref := range refs {
		a, err := openArray(ctx, ref)
		if err != nil {
			list.close()
			return nil, nd.At(err, nd.Place{Array: ref.URI})
		}
		if !hasRoom(a.meta.Shape, crop) {
			_ = a.close()
			continue
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, nd.Errorf(nd.ErrShape, "no array has the rank and the room for crops of %v", crop)
	}
	return list, nil
}

func hasRoom(shape, crop []int64) bool {
	if len(shape) != len(crop) {
		return false
	}
	for i, n := range crop {
		if n > shape[i] {
			return false
		}
	}
	return true
}

func openArray(ctx context.Context, ref pipeline.ArrayRef) (a array, err error) {
	if a.meta, err = pipeline.Metadata(ctx, ref); err != nil {
		return a, err
	}
	st, err := store.Open(ref.URI, store.Options{})
	if err != nil {
		return a, err
	}
	a.ref, a.close = ref, st.Close
	a.reader = func(keep int64) (*plainread.Reader, error) { return plainread.New(st, "", a.meta, keep) }
	return a, nil
}
