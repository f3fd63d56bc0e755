package main

import (
	"context"
	"time"

	"github.com/headrace/headrace/nd"
)

// call is a request that may block. It runs on its own goroutine until done is
// closed; outcome is set before that.
type call struct {
	cancel  context.CancelFunc
	done    chan struct{}
	outcome outcome
}

// outcome is what a call gave: an object that has no handle yet, a JSON document,
// or an error.
type outcome struct {
	object object
	json   []byte
	err    error
}

// start runs a request on a goroutine that ends with it, and returns the handle of
// its call.
func (l *library) start(run func(context.Context) outcome) uint64 {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(c.done)
		defer func() {
			if r := recover(); r != nil {
				c.outcome = outcome{err: l.panicked(r)}
			}
		}()
		c.outcome = run(ctx)
	}()
	return l.put(c)
}

// wait gives the outcome of a call that ends within the timeout, else again. The
// call is gone once its outcome was given.
func (l *library) wait(handle uint64, timeout time.Duration) (object uint64, json []byte, st status, err error) {
	c, err := lookup[*call](l, handle)
	if err != nil {
		return 0, nil, failed, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		return 0, nil, again, nil
	}
	if _, mine := l.take(handle); !mine {
		return 0, nil, failed, nd.Errorf(nd.ErrClosed, "call %d was waited for twice", handle)
	}
	if c.outcome.err != nil {
		return 0, nil, failed, c.outcome.err
	}
	if c.outcome.object != nil {
		object = l.put(c.outcome.object)
	}
	return object, c.outcome.json, done, nil
}

// cancel ends a call that nobody waits for any more: its context ends, and an
// object that it opens all the same is closed again. Unknown calls are ignored:
// they have been waited for.
func (l *library) cancel(handle uint64) {
	c, err := lookup[*call](l, handle)
	if err != nil {
		return
	}
	if _, mine := l.take(handle); !mine {
		return
	}
	c.cancel()
	go func() {
		<-c.done
		if c.outcome.object != nil {
			_ = c.outcome.object.close() // nobody is left to hear of it
		}
	}()
}

// closeObject takes an object out of the table and closes it in a call.
func (l *library) closeObject(handle uint64) (uint64, error) {
	o, err := lookup[object](l, handle)
	if err != nil {
		return 0, err
	}
	if _, mine := l.take(handle); !mine {
		return 0, nd.Errorf(nd.ErrClosed, "handle %d was closed", handle)
	}
	return l.start(func(context.Context) outcome { return outcome{err: o.close()} }), nil
}
