package pipeline

// temporary until open.go lands (delete this file then)

import (
	"context"

	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

type tmpOpened struct {
	store  store.Store
	prefix string
	array  *zarr.Array
}

func openArray(ctx context.Context, ref ArrayRef) (*tmpOpened, error) {
	st := ref.Store
	if st == nil {
		var err error
		if st, err = store.Open(ref.URI, store.Options{}); err != nil {
			return nil, err
		}
	}
	doc, err := store.ReadAll(ctx, st, "zarr.json", 1<<20)
	if err != nil {
		return nil, err
	}
	a, err := zarr.ParseArray(doc)
	return &tmpOpened{st, "", a}, err
}
