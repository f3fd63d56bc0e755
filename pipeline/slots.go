package pipeline

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/cuda"
)

// slot is the memory of one batch. It is free, in the making, or held.
type slot struct {
	mem    []byte          // on the host
	addr   cuda.Ptr        // on a device
	bytes  int64           // there
	handle *cuda.IPCHandle // of addr, once it was exported

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

// take gives the events and forgets them.
func (s *slot) take() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := s.after
	s.after = nil
	s.dirty.Store(false)
	return after
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
		if e, ok := after.(*pooledEvent); ok {
			e.pool.put(e)
		}
	}
	clear(s.after)
	s.after = s.after[:0]
	s.dirty.Store(false)
}

// slotMemory is where slots lie.
type slotMemory interface {
	alloc(n int64) (*slot, error)
	free(*slot) error
	// recall returns when no other process looks at the slots. It may take long.
	recall([]*slot)
	// done is called when every slot of closed slots was freed.
	done() error
}

// hostSlots lie in memory of the host.
type hostSlots struct{ memory Memory }

func (h hostSlots) alloc(n int64) (*slot, error) {
	mem, err := h.memory.Alloc(n)
	return &slot{mem: mem}, err
}

func (h hostSlots) free(s *slot) error { return h.memory.Free(s.mem) }
func (h hostSlots) recall([]*slot)     {} // a mapping elsewhere keeps its memory
func (h hostSlots) done() error        { return nil }

// slots owns the memory of all batches. Memory of slots that are held when the
// pipeline closes is freed with their last Release.
type slots struct {
	memory slotMemory
	mu     sync.Mutex
	closed bool
	idle   []*slot
	left   int // not freed
}

// newSlots takes the memory of n batches of size bytes.
func newSlots(memory slotMemory, n int, size int64) (*slots, error) {
	s := &slots{memory: memory}
	for range n {
		sl, err := memory.alloc(size)
		if err != nil {
			for _, sl := range s.idle {
				err = errors.Join(err, memory.free(sl))
			}
			return nil, err
		}
		s.idle = append(s.idle, sl)
		s.left++
	}
	return s, nil
}

// take gives a free slot to a batch in the making, nil if there is none.
func (s *slots) take() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 || s.closed {
		return nil
	}
	sl := s.idle[n-1]
	s.idle = s.idle[:n-1]
	return sl
}

// give takes a slot back. After close its memory goes back to the system, once
// nobody works on it any more.
func (s *slots) give(sl *slot) {
	if s.keep(sl) {
		return
	}
	sl.await()
	s.memory.recall([]*slot{sl})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sl) //nolint:errcheck // nobody is left to hear of it
}

// drop frees a slot.
func (s *slots) drop(sl *slot) error {
	err := s.memory.free(sl)
	sl.mem, sl.addr = nil, 0
	if s.left--; s.left == 0 {
		err = errors.Join(err, s.memory.done())
	}
	return err
}

// keep puts a slot among the free ones; false after close.
func (s *slots) keep(sl *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.idle = append(s.idle, sl)
	}
	return !s.closed
}

// close frees the slots that nobody holds; the others follow when given back.
func (s *slots) close() error {
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, sl := range idle { // a consumer may not be done with a batch that it released
		sl.await()
	}
	s.memory.recall(idle)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, sl := range idle {
		errs = append(errs, s.drop(sl))
	}
	return errors.Join(errs...)
}
