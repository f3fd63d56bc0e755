package pipeline

import (
	"errors"
	"sync"
	"sync/atomic"
)

// slot is the memory of one batch. It is free, in the making, or held.
type slot struct {
	mem []byte

	dirty atomic.Bool // after holds events
	mu    sync.Mutex
	after []Event // must have happened before the memory is written again
}

// owe adds an event of a consumer that is done with the memory.
func (s *slot) owe(after Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = append(s.after, after)
	s.dirty.Store(true)
}

// await waits until the last consumers' work on the memory is done.
func (s *slot) await() {
	if !s.dirty.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, after := range s.after {
		after.Wait() //nolint:errcheck // a lost device has no more use of the memory either
	}
	clear(s.after)
	s.after = s.after[:0]
	s.dirty.Store(false)
}

// slots owns the memory of all batches. Memory of slots that are held when the
// pipeline closes is freed with their last Release.
type slots struct {
	memory Memory
	mu     sync.Mutex
	closed bool
	free   []*slot
}

// newSlots takes the memory of n batches of size bytes.
func newSlots(memory Memory, n int, size int64) (*slots, error) {
	if memory == nil {
		memory = anonymous{}
	}
	s := &slots{memory: memory}
	for range n {
		mem, err := memory.Alloc(size)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		sl := &slot{mem: mem}
		s.free = append(s.free, sl)
	}
	return s, nil
}

// take gives a free slot to a batch in the making, nil if there is none.
func (s *slots) take() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 || s.closed {
		return nil
	}
	sl := s.free[n-1]
	s.free = s.free[:n-1]
	return sl
}

// give takes a slot back. After close its memory goes back to the system, once
// nobody works on it any more.
func (s *slots) give(sl *slot) {
	if s.keep(sl) {
		return
	}
	sl.await()
	s.memory.Free(sl.mem) //nolint:errcheck // nobody is left to hear of it, and ours cannot fail
	sl.mem = nil
}

// keep puts a slot among the free ones; false after close.
func (s *slots) keep(sl *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.free = append(s.free, sl)
	}
	return !s.closed
}

// close frees the slots that nobody holds; the others follow when given back.
func (s *slots) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, sl := range s.free {
		errs = append(errs, s.memory.Free(sl.mem))
		sl.mem = nil
	}
	s.free = nil
	return errors.Join(errs...)
}
