package pipeline

import (
	"context"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// InspectFolder lists the nodes directly below a folder that is no node itself:
// the Node has neither Array nor Group. Where there are none, the error is
// nd.ErrNotFound.
func InspectFolder(ctx context.Context, uri string) (*Node, error) {
	st, err := store.Open(uri, store.Options{})
	if err != nil {
		return nil, nd.At(err, nd.Place{Array: uri})
	}
	n := &Node{URI: uri, Store: st}
	err = n.listChildren(ctx, &node{store: st})
	if err == nil && len(n.Children) == 0 {
		err = nd.Errorf(nd.ErrNotFound, "no array and no group directly below")
	}
	if err != nil {
		_ = st.Close() // the first error is the one that matters
		return nil, nd.At(err, nd.Place{Array: uri})
	}
	return n, nil
}
