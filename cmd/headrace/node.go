package main

import (
	"context"
	"errors"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/zarr"
)

// inspect finds what lies at a URI: the node itself, or a level of its image
// pyramids by path or number. The caller closes it.
func inspect(ctx context.Context, uri, level string) (*pipeline.Node, error) {
	n, err := pipeline.Inspect(ctx, uri)
	if err != nil || level == "" {
		return n, err
	}
	path, err := levelPath(n, level)
	if err == nil {
		var at *pipeline.Node
		if at, err = pipeline.InspectStore(ctx, n.Store, path); err == nil {
			return at, nil
		}
	}
	return nil, errors.Join(nd.At(err, nd.Place{Array: uri}), n.Close())
}

// levelPath is the path of a level within the node's store.
func levelPath(n *pipeline.Node, name string) (string, error) {
	if n.Group == nil || len(n.Multiscales) == 0 {
		return "", nd.Errorf(nd.ErrNotFound, "level %q: there is no OME-Zarr image here", name)
	}
	l, err := zarr.PickLevel(n.Multiscales, name)
	return l.Path, err
}
