package companion

import (
	"errors"
	"sync"

	"github.com/headrace/headrace/nd"
)

// memfd is the kind of the memory of slots.
const memfd = "memfd"

// slots is the memory of one client's batches: the pipeline.Memory of all its
// pipelines. A slot is a file without a name, mapped by both processes.
type slots struct {
	mu      sync.Mutex
	last    uint64
	byStart map[*byte]*slot
	gone    []uint64 // freed, and the client was told of them
	freed   chan struct{}
}

// slot is the memory of one batch.
type slot struct {
	id  uint64
	mem []byte // the whole mapping
	fd  int    // -1 once it is sent; the client knows the id from then on
}

func newSlots() *slots {
	return &slots{byStart: map[*byte]*slot{}, freed: make(chan struct{}, 1)}
}

// Alloc makes a slot of n bytes.
func (s *slots) Alloc(n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	fd, mem, err := shared(n)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBudget, "cannot take %d bytes of shared memory for a batch: %w", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.byStart[&mem[0]] = &slot{id: s.last, mem: mem, fd: fd}
	return mem, nil
}

// Free unmaps a slot here. The client's mapping stays until it drops it.
func (s *slots) Free(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	sl, fd := s.remove(&mem[0])
	if sl == nil {
		return nd.Errorf(nd.ErrBug, "memory of %d bytes is freed that is no slot", len(mem))
	}
	return errors.Join(closeDescriptor(fd), unmap(sl.mem))
}

// remove forgets a slot and gives its descriptor, which is the caller's.
func (s *slots) remove(start *byte) (*slot, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.byStart[start]
	if sl == nil {
		return nil, -1
	}
	delete(s.byStart, start)
	if sl.fd < 0 {
		s.gone = append(s.gone, sl.id)
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
	return sl, sl.fd
}

// find is the slot that starts where data does. The first tensor of a batch lies at
// the start of its slot.
func (s *slots) find(data []byte) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byStart[&data[0]]
}

// offset is where data begins in the slot. Tensors are slices of the slot's memory,
// whose capacity reaches to its end.
func (sl *slot) offset(data []byte) int64 { return int64(cap(sl.mem) - cap(data)) }

// tell gives the description of a slot that the client does not know yet, with its
// descriptor, which is the caller's to send and to close; nil for one that it knows.
// The batch of a sent description may be given back, and the slot be gone, before the
// call that sends it returns.
func (s *slots) tell(sl *slot) ([]Memory, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.fd < 0 {
		return nil, -1
	}
	fd := sl.fd
	sl.fd = -1
	return []Memory{{ID: sl.id, Kind: memfd, Bytes: int64(len(sl.mem))}}, fd
}

// takeGone lists the ids that the client may forget, once.
func (s *slots) takeGone() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.gone
	s.gone = nil
	return gone
}
