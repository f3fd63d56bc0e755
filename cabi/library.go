package main

import (
	"io"
	"sync"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
)

// The statuses that an export returns; the values are those of headrace.h.
type status = session.Status

const (
	done   = session.Done
	again  = session.Again
	failed = session.Failed
)

// library is what outlives a call: the session of this process with all that it
// opened, the calls, and the release pipe. A c-shared library has no other root to
// hang them on than a variable; there is one, lib, and only the exports touch it.
type library struct {
	*session.Session
	mu struct {
		sync.Mutex
		last  uint64
		calls map[uint64]*call
	}
	releases releases
}

// newLibrary makes a library whose first panic is dumped to stderr.
func newLibrary(stderr io.Writer) *library {
	l := &library{Session: session.New(session.Options{Stderr: stderr, Join: join})}
	l.mu.calls = map[uint64]*call{}
	return l
}

// join takes a loader into the job of its agent.
func join(client *agentapi.Client, a agentapi.Attach, local int) (session.Part, error) {
	f, err := fence.New(client, a, local)
	if err != nil {
		return nil, err // not f: a nil *fence.Fence is no nil Part
	}
	return f, nil
}

// put makes a number for a call. Numbers are never used twice.
func (l *library) put(c *call) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last++
	l.mu.calls[l.mu.last] = c
	return l.mu.last
}

// get is the call of a number.
func (l *library) get(number uint64) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.mu.calls[number]
	if !ok {
		return nil, nd.Errorf(nd.ErrClosed, "call %d has given its result", number)
	}
	return c, nil
}

// take removes a call: of several callers one gets it.
func (l *library) take(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.mu.calls[number]
	delete(l.mu.calls, number)
	return ok
}
