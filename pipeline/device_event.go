package pipeline

import (
	"errors"
	"sync"

	"github.com/headrace/headrace/cuda"
)

// eventPool keeps events that consumers' streams record when they are done with a
// batch.
type eventPool struct {
	gpu    *cuda.Device
	mu     sync.Mutex
	idle   []*pooledEvent
	closed bool
}

// pooledEvent goes back to its pool once the device was told to wait for it.
type pooledEvent struct {
	*cuda.Event
	pool *eventPool
}

// record marks the point that the stream has come to.
func (p *eventPool) record(stream uintptr) (*pooledEvent, error) {
	e, err := p.take()
	if err != nil {
		return nil, err
	}
	var c cuda.Commands
	c.Record(p.gpu.Wrap(stream), e.Event)
	if err := p.gpu.Run(&c); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// forgo gives an event back that nobody will wait for.
func forgo(after Event) {
	if e, ok := after.(*pooledEvent); ok {
		e.pool.put(e)
	}
}

func (p *eventPool) take() (*pooledEvent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		e := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return e, nil
	}
	e, err := p.gpu.NewEvent(false)
	return &pooledEvent{e, p}, err
}

func (p *eventPool) put(list ...*pooledEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range list {
		if p.closed {
			e.Close() //nolint:errcheck // nobody is left to hear of it
			continue
		}
		p.idle = append(p.idle, e)
	}
}

func (p *eventPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, e := range p.idle {
		errs = append(errs, e.Close())
	}
	p.idle = nil
	return errors.Join(errs...)
}
