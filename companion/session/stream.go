package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// stream is an object that gives batches.
type stream interface {
	object
	// nextBatch waits for a batch; a context that ends loses none. io.EOF is the
	// end of an epoch, or of what was finished.
	nextBatch(ctx context.Context) (Delivery, error)
	// held counts the batches of the stream that are out.
	held() *atomic.Int64
	// onClose says what to do once the stream is closed.
	onClose(func())
}

// holdings is the count of a stream's batches that are out, and its end.
type holdings struct {
	ending
	out atomic.Int64
}

func (h *holdings) held() *atomic.Int64 { return &h.out }

// Delivery is a batch and what is said about it beyond the batch itself.
type Delivery struct {
	Batch  *pipeline.Batch
	Weight float64 // of a loader: loader.Weight; of a pipeline: share of a full batch
	Errors []byte  // JSON of the samples that were skipped or filled, nil for none
}

// sampleNote is a sample that was skipped or filled.
type sampleNote struct {
	ID      int64  `json:"id"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// deliver describes a batch; errs are those of its samples that were skipped or filled.
func deliver(b *pipeline.Batch, errs []error, weight float64) (Delivery, error) {
	d := Delivery{Batch: b, Weight: weight}
	if len(errs) == 0 {
		return d, nil
	}
	var list []sampleNote
	for _, err := range errs {
		note := sampleNote{Message: err.Error()}
		_, note.Kind = KindOf(err)
		if s, ok := errors.AsType[*pipeline.SampleError](err); ok {
			note.ID = s.ID
		}
		list = append(list, note)
	}
	var err error
	d.Errors, err = json.Marshal(list)
	return d, err
}

func (s *Session) next(ctx context.Context, from stream, timeout time.Duration, deliver func(d Delivery, token uint64) error) (Status, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, err := from.nextBatch(waiting)
	switch {
	case err == context.DeadlineExceeded, waits(err): //nolint:errorlint // ours, as it is: a store's timeout comes wrapped
		return Again, nil
	case errors.Is(err, io.EOF):
		return Ended, nil
	case err != nil:
		return Failed, err
	}
	from.held().Add(1)
	_, gpu := d.Batch.GPU()
	out := &loan{batch: d.Batch, out: from.held(), lent: gpu && s.options.Memory != nil}
	token, err := s.put(out)
	if err != nil {
		return Failed, errors.Join(err, d.Batch.Release(nil))
	}
	if err := deliver(d, token); err != nil {
		s.GiveBack(token)
		return Failed, err
	}
	return Done, nil
}

// waits reports whether a wait for the job was ended by the timeout.
func waits(err error) bool {
	_, ok := errors.AsType[*agentapi.WaitError](err)
	return ok && errors.Is(err, context.DeadlineExceeded)
}

// answerer is an object that can be asked for something by name.
type answerer interface {
	object
	// answer gives a value that JSON can hold. The argument is a JSON value.
	answer(ctx context.Context, method string, argument []byte) (any, error)
}

// Ask asks an object for something by name; argument and answer are JSON values.
func (s *Session) Ask(ctx context.Context, handle uint64, method string, argument []byte) ([]byte, error) {
	o, err := lookup[answerer](s, handle)
	if err != nil {
		return nil, err
	}
	value, err := o.answer(ctx, method, argument)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBug, "answer of %s: %w", method, err)
	}
	return text, nil
}

func noMethod(method string) error {
	return nd.Errorf(nd.ErrBug, "there is no method %q", method)
}
