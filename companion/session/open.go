package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// Open opens what a request asks for: its handle, and its description as JSON, nil
// if there is none.
func (s *Session) Open(ctx context.Context, text []byte) (handle uint64, about []byte, err error) {
	var r request
	if err := Parse(text, &r); err != nil {
		return 0, nil, err
	}
	if err := s.complete(&r); err != nil {
		return 0, nil, err
	}
	o, err := s.open(ctx, &r)
	if err != nil {
		return 0, nil, err
	}
	if d, ok := o.(interface{ about() any }); ok {
		if about, err = json.Marshal(d.about()); err != nil {
			return 0, nil, errors.Join(nd.Errorf(nd.ErrBug, "description: %w", err), o.close())
		}
	}
	if handle, err = s.putObject(o); err != nil {
		return 0, nil, err
	}
	return handle, about, nil
}

// complete adds to a request what the session's transport has to say.
func (s *Session) complete(r *request) error {
	r.memory, r.driver, r.join = s.options.Memory, s.options.Driver, s.options.Join
	if r.Open == "source" || r.Open == "array" {
		return nil
	}
	if r.Loader != nil && r.Loader.Name == "" {
		// All ranks open their loaders in one order, so the numbers agree.
		r.Loader.Name = fmt.Sprintf("loader %d", s.loaders.Load())
	}
	if r.Workers == 0 && r.Open == "pipeline" {
		r.Workers = s.options.Cores
	}
	if r.Open == "read" { // one crop for the host: no GPU is worth its start
		return nil
	}
	return s.place(r)
}

func (s *Session) open(ctx context.Context, r *request) (object, error) {
	switch r.Open {
	case "source":
		return held(openSource(ctx, r))
	case "array":
		return held(openArray(ctx, r.at(r.URI), r.Level))
	}
	if err := s.options.Pipelines.take(); err != nil {
		return nil, err
	}
	o, err := s.openStream(ctx, r)
	if err != nil {
		s.options.Pipelines.give()
		return nil, err
	}
	o.onClose(s.options.Pipelines.give)
	if r.Open == "loader" {
		s.loaders.Add(1)
	}
	return o, nil
}

func (s *Session) openStream(ctx context.Context, r *request) (stream, error) {
	switch r.Open {
	case "pipeline":
		return heldStream(openPipeline(ctx, r))
	case "loader":
		return heldStream(openLoader(ctx, r))
	case "read":
		return heldStream(openRead(ctx, s, r))
	}
	return nil, nd.Errorf(nd.ErrBug, "there is nothing called %q to open", r.Open)
}

// held is an object, or the error in its place. T is the object's own type, so that
// a nil one is not taken for an object.
func held[T object](o T, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

func heldStream[T stream](o T, err error) (stream, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

// ending is what a stream does once, at its close.
type ending struct {
	once sync.Once
	what func()
}

func (e *ending) onClose(what func()) { e.what = what }

func (e *ending) end() {
	e.once.Do(func() {
		if e.what != nil {
			e.what()
		}
	})
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
