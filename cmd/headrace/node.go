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
	for _, m := range n.Multiscales {
		for _, l := range m.Levels {
			if l.Path == name {
				return l.Path, nil
			}
		}
	}
	l, err := n.Multiscales[0].Level(name)
	return l.Path, err
}

// arrayOf is the metadata of the array that a reference names: level 0 where it
// names an image.
func arrayOf(ctx context.Context, ref pipeline.ArrayRef) (_ *zarr.Array, err error) {
	n, err := inspect(ctx, ref.URI, ref.Level)
	if err != nil {
		return nil, err
	}
	if n.Group != nil && len(n.Multiscales) > 0 {
		path := n.Multiscales[0].Levels[0].Path
		at, err := pipeline.InspectStore(ctx, n.Store, path)
		if err != nil {
			return nil, errors.Join(nd.At(err, nd.Place{Array: ref.URI}), n.Close())
		}
		n = at
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	switch {
	case n.Err != nil:
		return nil, nd.At(n.Err, nd.Place{Array: ref.URI})
	case n.Array == nil:
		return nil, nd.At(nd.Errorf(nd.ErrNotFound, "a group, not an array: `headrace info` lists what it holds"), nd.Place{Array: ref.URI})
	}
	return n.Array, nil
}
