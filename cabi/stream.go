package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// stream is an object that gives batches.
type stream interface {
	object
	// nextBatch waits for a batch; a context that ends loses none. io.EOF is the
	// end of an epoch, or of what was finished.
	nextBatch(ctx context.Context) (delivery, error)
	// held counts the batches of the stream that are out.
	held() *atomic.Int64
}

// holdings is the count of a stream's batches that are out.
type holdings struct{ out atomic.Int64 }

func (h *holdings) held() *atomic.Int64 { return &h.out }

// loan is a batch that is out: what a token stands for.
type loan struct {
	batch *pipeline.Batch
	out   *atomic.Int64
}

// delivery is a batch and what is said about it beyond the batch itself.
type delivery struct {
	batch  *pipeline.Batch
	weight float64
	errors []byte // JSON of the samples that were skipped or filled, nil for none
}

// sampleNote is a sample that was skipped or filled.
type sampleNote struct {
	ID      int64  `json:"id"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func deliver(b *pipeline.Batch, weight float64) (delivery, error) {
	d := delivery{batch: b, weight: weight}
	if len(b.Errs()) == 0 {
		return d, nil
	}
	var list []sampleNote
	for _, err := range b.Errs() {
		note := sampleNote{Message: err.Error()}
		_, note.Kind = kindOf(err)
		if s, ok := errors.AsType[*pipeline.SampleError](err); ok {
			note.ID = s.ID
		}
		list = append(list, note)
	}
	var err error
	d.errors, err = json.Marshal(list)
	return d, err
}

// next waits for a batch of a stream and gives it a token. The batch is the
// caller's once fill has told it the token.
func (l *library) next(s stream, timeout time.Duration, fill func(d delivery, token uint64) error) (status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	d, err := s.nextBatch(ctx)
	switch {
	case err == context.DeadlineExceeded: //nolint:errorlint // ours, as it is: a store's timeout comes wrapped
		return again, nil
	case errors.Is(err, io.EOF):
		return ended, nil
	case err != nil:
		return failed, err
	}
	s.held().Add(1)
	token := l.put(&loan{d.batch, s.held()})
	if err := fill(d, token); err != nil {
		l.release(token)
		return failed, err
	}
	return done, nil
}

// answerer is an object that can be asked for something by name.
type answerer interface {
	object
	// answer gives a value that JSON can hold. The argument is a JSON value.
	answer(ctx context.Context, method string, argument []byte) (any, error)
}

func answer(ctx context.Context, o answerer, method string, argument []byte) outcome {
	value, err := o.answer(ctx, method, argument)
	if err != nil {
		return outcome{err: err}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return outcome{err: nd.Errorf(nd.ErrBug, "answer of %s: %w", method, err)}
	}
	return outcome{json: text}
}

func noMethod(method string) error {
	return nd.Errorf(nd.ErrBug, "there is no method %q", method)
}
