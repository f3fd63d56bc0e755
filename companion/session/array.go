package session

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/zarr"
)

// arrayObject is an array that Python reads crops of. It keeps the store open.
type arrayObject struct {
	node *pipeline.Node
	uri  string
}

// openArray opens the array that a URI names, or a level of the multiscales that
// lie there: level 0 of the first where level is "".
func openArray(ctx context.Context, uri, level string) (*arrayObject, error) {
	n, err := pipeline.Inspect(ctx, uri)
	if err != nil {
		return nil, err
	}
	n, err = arrayOf(ctx, n, level)
	if err != nil {
		_ = n.Close() // the first error is the one that matters
		return nil, nd.At(err, nd.Place{Array: uri})
	}
	return &arrayObject{n, uri}, nil
}

// arrayOf is the node itself, or that of a level below it; both share a store.
func arrayOf(ctx context.Context, n *pipeline.Node, level string) (*pipeline.Node, error) {
	switch {
	case n.Err != nil:
		return n, n.Err
	case n.Array != nil && level == "":
		return n, nil
	case n.Array != nil:
		return n, nd.Errorf(nd.ErrNotFound, "level %q: this is an array and has no levels", level)
	case len(n.Multiscales) == 0:
		return n, nd.Errorf(nd.ErrNotFound, "this is a group without multiscales: name an array in it%s", children(n))
	}
	l, err := zarr.PickLevel(n.Multiscales, level)
	if err != nil {
		return n, err
	}
	path := l.Path
	if n.Path != "" {
		path = n.Path + "/" + path
	}
	below, err := pipeline.InspectStore(ctx, n.Store, path)
	if err != nil {
		return n, err
	}
	if below.Err != nil {
		return n, below.Err
	}
	if below.Array == nil {
		return n, nd.Errorf(nd.ErrNotFound, "level %q is a group, not an array", l.Path)
	}
	return below, nil
}

// children lists some of what lies in a group, for messages.
func children(n *pipeline.Node) string {
	const most = 8
	text := ""
	for i, c := range n.Children {
		if i == most {
			return text + ", …"
		}
		if i == 0 {
			text = ": "
		} else {
			text += ", "
		}
		text += c.Path
	}
	return text
}

func (o *arrayObject) close() error { return o.node.Close() }

// ref is the array for a pipeline, which does not close the store.
func (o *arrayObject) ref() pipeline.ArrayRef {
	return pipeline.ArrayRef{URI: o.node.Path, Store: o.node.Store}
}

// arrayAbout describes an array to Python.
type arrayAbout struct {
	Shape      []int64         `json:"shape"`
	DType      string          `json:"dtype"`
	Time       string          `json:"time,omitempty"` // numpy's name of a datetime64 or timedelta64
	Chunks     []int64         `json:"chunks"`
	Shards     []int64         `json:"shards,omitempty"`
	Attributes json.RawMessage `json:"attrs,omitempty"`
	Dimensions []string        `json:"dimension_names,omitempty"`
	Format     int             `json:"zarr_format"`
	Notes      []string        `json:"notes,omitempty"`
}

func (o *arrayObject) about() any {
	a := o.node.Array
	about := arrayAbout{
		Shape: append([]int64{}, a.Shape...), DType: a.DType.String(), Chunks: append([]int64{}, a.Leaf().Chunk...),
		Attributes: a.Attributes, Dimensions: a.DimensionNames, Format: a.Format, Notes: a.Notes,
	}
	if len(a.Levels) > 1 {
		about.Shards = slices.Clone(a.Levels[0].Chunk)
	}
	if a.DType.Time != 0 {
		about.Time = string(a.DType.Time) + "8"
		if a.DType.Unit != "" {
			about.Time += "[" + a.DType.Unit + "]"
		}
	}
	return about
}

// readObject is the reading of one crop: a pipeline that makes one batch of it.
type readObject struct {
	holdings
	p   *pipeline.Pipeline
	uri string
}

// readError is an error of a read in the reader's terms: there is one crop, which
// needs no number, and the pipeline knows the array by its place in the store.
func readError(err error, uri string) error {
	if b, ok := errors.AsType[*pipeline.BatchError](err); ok {
		err = b.Samples[0].Err
	}
	if e, ok := err.(*nd.Error); ok { //nolint:errorlint // only the outermost error's place is shown
		c := *e
		c.Array = uri
		return &c
	}
	return nd.At(err, nd.Place{Array: uri})
}

func openRead(ctx context.Context, s *Session, r *request) (*readObject, error) {
	a, err := lookup[*arrayObject](s, r.Array)
	if err != nil {
		return nil, err
	}
	box := r.Box.box()
	shape := make([]int, len(box))
	for i, span := range box {
		if span.Len() >= math.MaxInt32 {
			return nil, nd.Errorf(nd.ErrShape, "axis %d: the slice %d:%d has the extent %d, one read takes at most %d: read it in parts (array %s)",
				i, span.Start, span.Stop, span.Len(), math.MaxInt32-1, a.uri)
		}
		shape[i] = int(span.Len())
	}
	p, err := pipeline.Open(ctx, pipeline.Config{
		Arrays: []pipeline.ArrayRef{a.ref()}, Fields: []pipeline.Field{{Name: "data", Shape: shape}},
		BatchSize: 1, Slots: 1, Reuse: pipeline.ReuseNone, BatchMemory: r.batchMemory(),
	})
	if err != nil {
		return nil, readError(err, a.uri)
	}
	if err := pushOne(ctx, p, box); err != nil {
		return nil, readError(err, a.uri)
	}
	return &readObject{p: p, uri: a.uri}, nil
}

func (o *readObject) nextBatch(ctx context.Context) (Delivery, error) {
	b, err := o.p.Next(ctx)
	if err != nil {
		return Delivery{}, readError(err, o.uri)
	}
	return deliver(b, b.Errs(), 1)
}

func (o *readObject) close() error {
	defer o.end()
	return o.p.Close()
}
