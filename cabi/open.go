package main

import (
	"context"
	"encoding/json"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// open opens what a request asks for.
func (l *library) open(ctx context.Context, r *request) outcome {
	switch r.Open {
	case "pipeline":
		o, err := openPipeline(ctx, r)
		return opened(o, err)
	case "loader":
		o, err := openLoader(ctx, r)
		return opened(o, err)
	case "source":
		o, err := openSource(ctx, r.Source)
		return opened(o, err)
	case "array":
		o, err := openArray(ctx, r.URI, r.Level)
		return opened(o, err)
	case "read":
		o, err := openRead(ctx, l, r)
		return opened(o, err)
	}
	return outcome{err: nd.Errorf(nd.ErrBug, "there is nothing called %q to open", r.Open)}
}

// opened is an object with its description, or the error in its place. T is the
// object's own type, so that a nil one is not taken for an object.
func opened[T object](o T, err error) outcome {
	if err != nil {
		return outcome{err: err}
	}
	out := outcome{object: o}
	if d, ok := any(o).(interface{ about() any }); ok {
		out.json, out.err = json.Marshal(d.about())
	}
	return out
}

// pushOne gives a pipeline one batch of one crop of its first array.
func pushOne(ctx context.Context, p *pipeline.Pipeline, box nd.Box) error {
	sample := sampler.Sample{Crops: []sampler.Crop{{Box: box}}}
	if err := p.PushBatch(ctx, pipeline.Meta{}, []sampler.Sample{sample}); err != nil {
		_ = p.Close() // the first error is the one that matters
		return err
	}
	return nil
}
