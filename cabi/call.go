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

// outcome is what a call gave: the handle of an object that it opened or 0, a JSON
// document, or an error.
type outcome struct {
	handle uint64
	json   []byte
	err    error
}

// start runs a request on a goroutine that ends with it, and returns the number of
// its call.
func (l *library) start(run func(context.Context) outcome) uint64 {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(c.done)
		defer func() {
			if r := recover(); r != nil {
				c.outcome = outcome{err: l.Panicked(r)}
			}
		}()
		c.outcome = run(ctx)
	}()
	return l.put(c)
}

// wait gives the outcome of a call that ends within the timeout, else again. The
// call is gone once its outcome was given.
func (l *library) wait(number uint64, timeout time.Duration) (outcome, status, error) {
	c, err := l.get(number)
	if err != nil {
		return outcome{}, failed, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		return outcome{}, again, nil
	}
	if !l.take(number) {
		return outcome{}, failed, nd.Errorf(nd.ErrClosed, "call %d was waited for twice", number)
	}
	if c.outcome.err != nil {
		return outcome{}, failed, c.outcome.err
	}
	return c.outcome, done, nil
}

// cancel ends a call that nobody waits for any more: its context ends, and an
// object that it opens all the same is closed again. Unknown calls are ignored:
// they have been waited for.
func (l *library) cancel(number uint64) {
	c, err := l.get(number)
	if err != nil || !l.take(number) {
		return
	}
	c.cancel()
	go func() {
		<-c.done
		l.GiveBack(c.outcome.handle)
	}()
}

// closeObject takes an object's handle away and closes it in a call.
func (l *library) closeObject(handle uint64) (uint64, error) {
	closeIt, err := l.Detach(handle)
	if err != nil {
		return 0, err
	}
	return l.start(func(context.Context) outcome { return outcome{err: closeIt()} }), nil
}
