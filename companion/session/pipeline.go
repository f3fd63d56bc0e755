package session

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// pipelineObject is a pipeline whose arrays need not be known at the start:
// samples name them by URI as they come. The engine adds them while it runs. One
// that does not fit the memory divided at Open makes another engine necessary,
// opened with all arrays: the old one finishes what it has, and its batches come
// out first.
type pipelineObject struct {
	holdings
	request *request

	growing sync.Mutex // held by grow; before mu

	mu      sync.Mutex
	engines []*engine     // the last one is pushed to, the first one gives batches
	changed chan struct{} // closed and renewed when engines changes
	step    int64
	ends    int // finishes before there was an engine, not delivered yet
	closed  bool

	expired context.Context // pushing with it takes what there is room for
}

// engine is one pipeline of the succession.
type engine struct {
	p     *pipeline.Pipeline
	known arrayList // changed by grow alone
	// finishes counts the calls of finish whose end has not come out of Next yet:
	// an end beyond those is that of the engine.
	finishes int
}

func openPipeline(ctx context.Context, r *request) (*pipelineObject, error) {
	o := &pipelineObject{request: r, changed: make(chan struct{})}
	var cancel context.CancelFunc
	o.expired, cancel = context.WithCancel(context.Background())
	cancel()
	if len(r.Arrays.URIs) == 0 {
		return o, nil
	}
	return o, o.grow(ctx, r.Arrays)
}

// grow makes the last engine read all these arrays: those that it reads already,
// with their numbers, and more. Where it cannot, another one is opened.
func (o *pipelineObject) grow(ctx context.Context, known arrayList) error {
	o.growing.Lock()
	defer o.growing.Unlock()
	if last := o.last(); last != nil {
		if ok, err := last.extend(ctx, o.request, known); ok || err != nil {
			return err
		}
	}
	cfg, err := o.request.config(o.request.arrayRefs(known.URIs), known.Feeds)
	if err != nil {
		return err
	}
	p, err := pipeline.Open(ctx, cfg)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errors.Join(o.closedError(), p.Close())
	}
	if n := len(o.engines); n > 0 {
		o.engines[n-1].p.Finish()
	}
	o.engines = append(o.engines, &engine{p: p, known: known})
	o.signal()
	return nil
}

func (o *pipelineObject) last() *engine {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.engines); n > 0 {
		return o.engines[n-1]
	}
	return nil
}

// extend adds the arrays that the engine does not read yet. It is false where
// that takes another engine: the numbers or feeds of known arrays change, or a
// new one does not fit what was laid out at Open.
func (e *engine) extend(ctx context.Context, r *request, known arrayList) (bool, error) {
	fields := r.Fields
	n := len(e.known.URIs)
	if len(known.URIs) < n || !slices.Equal(known.URIs[:n], e.known.URIs) {
		return false, nil
	}
	for f := range fields {
		if !slices.Equal(below(known.Feeds[f], n), e.known.Feeds[f]) {
			return false, nil
		}
	}
	for i := n; i < len(known.URIs); i++ {
		var names []string
		for f := range fields {
			if slices.Contains(known.Feeds[f], i) {
				names = append(names, fields[f].Name)
			}
		}
		_, err := e.p.AddArray(ctx, pipeline.ArrayRef{URI: r.at(known.URIs[i])}, names...)
		if errors.Is(err, nd.ErrBudget) || errors.Is(err, nd.ErrConfig) || errors.Is(err, nd.ErrShape) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		e.known = arrayList{URIs: known.URIs[:i+1]}
		for f := range fields {
			e.known.Feeds = append(e.known.Feeds, below(known.Feeds[f], i+1))
		}
	}
	return true, nil
}

// below are the numbers less than n, in order.
func below(numbers []int, n int) []int {
	var list []int
	for _, i := range numbers {
		if i < n {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

func (o *pipelineObject) signal() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *pipelineObject) closedError() error {
	return nd.Errorf(nd.ErrClosed, "the pipeline is closed")
}

// push adds one batch, or nothing if there is no room for it.
func (o *pipelineObject) push(words []int64, samples int) (Status, error) {
	batch, err := samplesOf(words, samples, len(o.request.Fields))
	if err != nil {
		return Failed, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.engines) == 0 {
		return Failed, o.closedError()
	}
	last := o.engines[len(o.engines)-1]
	err = last.p.PushBatch(o.expired, pipeline.Meta{Step: o.step}, batch)
	if errors.Is(err, context.Canceled) {
		return Again, nil
	}
	if err == nil {
		o.step++
	}
	return Done, err
}

// nextBatch gives the batches of the engines one after the other.
func (o *pipelineObject) nextBatch(ctx context.Context) (Delivery, error) {
	for {
		e, changed, err := o.first()
		if err != nil {
			return Delivery{}, err
		}
		if e == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return Delivery{}, ctx.Err()
			}
		}
		b, err := e.p.Next(ctx)
		switch {
		case errors.Is(err, io.EOF) && o.passed(e):
		case errors.Is(err, nd.ErrClosed) && o.replaced(e):
		case err != nil:
			return Delivery{}, err
		default:
			return deliver(b, b.Errs(), float64(len(b.Samples()))/float64(o.request.BatchSize))
		}
	}
}

// replaced reports whether an engine was closed because it had given all it had,
// while another caller still waited for it.
func (o *pipelineObject) replaced(e *engine) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.closed && o.engines[0] != e
}

// first is the engine that gives the next batch; nil with a channel to wait on
// where there is none yet.
func (o *pipelineObject) first() (*engine, <-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, nil, o.closedError()
	}
	if o.ends > 0 {
		o.ends--
		return nil, nil, io.EOF
	}
	if len(o.engines) == 0 {
		return nil, o.changed, nil
	}
	return o.engines[0], nil, nil
}

// passed takes note of an end of stream: true if the engine has given all it had
// and was closed, false if the caller asked for this end.
func (o *pipelineObject) passed(e *engine) bool {
	o.mu.Lock()
	if e.finishes > 0 {
		e.finishes--
		o.mu.Unlock()
		return false
	}
	mine := len(o.engines) > 1 && o.engines[0] == e
	if mine {
		o.engines = o.engines[1:]
	}
	o.mu.Unlock()
	if mine {
		_ = e.p.Close() // its goroutines are idle; batches that are held stay
	}
	return true
}

// finish ends the stream.
func (o *pipelineObject) finish() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.closedError()
	}
	if len(o.engines) == 0 {
		o.ends++
		o.signal()
		return nil
	}
	last := o.engines[len(o.engines)-1]
	last.finishes++
	last.p.Finish()
	return nil
}

// discard drops what was not delivered. Engines but the last have nothing else.
func (o *pipelineObject) discard(ctx context.Context) error {
	o.mu.Lock()
	n := len(o.engines)
	o.ends = 0
	if n == 0 {
		o.mu.Unlock()
		return nil
	}
	older, last := o.engines[:n-1], o.engines[n-1]
	o.engines, last.finishes = o.engines[n-1:], 0
	o.mu.Unlock()
	for _, e := range older {
		_ = e.p.Close()
	}
	return last.p.Discard(ctx)
}

func (o *pipelineObject) close() error {
	defer o.end()
	o.mu.Lock()
	engines := o.engines
	o.engines, o.closed = nil, true
	o.signal()
	o.mu.Unlock()
	var errs []error
	for _, e := range engines {
		errs = append(errs, e.p.Close())
	}
	return errors.Join(errs...)
}

func (o *pipelineObject) about() any { return o.request.placed }

func (o *pipelineObject) stats() stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.engines) == 0 {
		return statsOf(o.request.placed, pipeline.Stats{}, o.held())
	}
	return statsOf(o.request.placed, o.engines[len(o.engines)-1].p.Stats(), o.held())
}

func (o *pipelineObject) answer(ctx context.Context, method string, argument []byte) (any, error) {
	switch method {
	case "grow":
		var known arrayList
		if err := Parse(argument, &known); err != nil {
			return nil, err
		}
		return nil, o.grow(ctx, known)
	case "finish":
		return nil, o.finish()
	case "discard":
		return nil, o.discard(ctx)
	case "stats":
		return o.stats(), nil
	}
	return nil, noMethod(method)
}

// samplesOf reads what Push is given: for each sample its id, then for each
// field array, flip, rank, and start and stop of each axis.
func samplesOf(words []int64, samples, fields int) ([]sampler.Sample, error) {
	batch := make([]sampler.Sample, samples)
	for i := range batch {
		id, ok := next(&words, 1)
		if !ok {
			return nil, shortPush(samples)
		}
		batch[i] = sampler.Sample{ID: id[0], Crops: make([]sampler.Crop, fields)}
		for k := range batch[i].Crops {
			if batch[i].Crops[k], ok = cropOf(&words); !ok {
				return nil, shortPush(samples)
			}
		}
	}
	if len(words) > 0 {
		return nil, nd.Errorf(nd.ErrBug, "%d numbers are left over after %d pushed samples", len(words), samples)
	}
	return batch, nil
}

func cropOf(words *[]int64) (sampler.Crop, bool) {
	head, ok := next(words, 3)
	if !ok {
		return sampler.Crop{}, false
	}
	spans, ok := next(words, 2*head[2])
	if !ok {
		return sampler.Crop{}, false
	}
	c := sampler.Crop{Array: int(head[0]), Flip: uint32(head[1]), Box: make(nd.Box, len(spans)/2)}
	for axis := range c.Box {
		c.Box[axis] = nd.Span{Start: spans[2*axis], Stop: spans[2*axis+1]}
	}
	return c, true
}

// next takes n words off the front.
func next(words *[]int64, n int64) ([]int64, bool) {
	if n < 0 || n > int64(len(*words)) {
		return nil, false
	}
	taken := (*words)[:n]
	*words = (*words)[n:]
	return taken, true
}

func shortPush(samples int) error {
	return nd.Errorf(nd.ErrBug, "the numbers of %d pushed samples are too few", samples)
}
