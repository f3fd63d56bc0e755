package pipeline

import (
	"context"
	"sync"
	"time"
)

// outlet is the queue of finished batches, in order. It is bounded by the slots
// and by the room of the look-ahead that empty batches keep until they are taken.
type outlet struct {
	mu    sync.Mutex
	queue []published
	err   error         // set once: what Next gives when the queue is empty
	wake  chan struct{} // closed and renewed when something changes
}

// published is a batch, the error in its place, or the end of the stream.
type published struct {
	batch *Batch
	err   error
	room  int // of the look-ahead, given back when taken
}

func newOutlet() *outlet { return &outlet{wake: make(chan struct{})} }

func (o *outlet) put(p published) {
	o.mu.Lock()
	o.queue = append(o.queue, p)
	o.signal()
	o.mu.Unlock()
}

// end makes Next fail with err from now on. What is finished is dropped: after
// Close nobody may take it, after a fatal error nobody should.
func (o *outlet) end(err error) (dropped []published) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	dropped, o.queue = o.queue, nil
	o.signal()
	return dropped
}

// drain takes everything that is finished.
func (o *outlet) drain() []published {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := o.queue
	o.queue = nil
	return dropped
}

func (o *outlet) signal() {
	close(o.wake)
	o.wake = make(chan struct{})
}

// take waits for the next batch.
func (o *outlet) take(ctx context.Context, wait *stageCounter) (published, error) {
	var began time.Time
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return published{}, o.err
		}
		if len(o.queue) > 0 {
			p := o.queue[0]
			o.queue = o.queue[1:]
			o.mu.Unlock()
			if !began.IsZero() {
				wait.add(1, time.Since(began), 0, 0)
			}
			return p, nil
		}
		wake := o.wake
		o.mu.Unlock()
		if began.IsZero() {
			began = time.Now()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return published{}, ctx.Err()
		}
	}
}
