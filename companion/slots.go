package companion

import (
	"encoding/hex"
	"errors"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// The kinds of the memory of slots: on the host, and on a GPU.
const (
	memfd   = "memfd"
	cudaIPC = "cuda_ipc"
)

// slots is the memory of one client's batches: the pipeline.DeviceMemory of all its
// pipelines. A slot is a file without a name, mapped by both processes, or an
// allocation of the pipeline on a GPU.
type slots struct {
	mu      sync.Mutex
	last    uint64
	byStart map[*byte]*slot
	lent    map[any]*slot // on a GPU, by pipeline.Exported.Allocation
	gone    []uint64      // freed, and the client was told of them
	freed   chan struct{}
}

// slot is the memory of one batch.
type slot struct {
	id  uint64
	mem []byte // the whole mapping, on the host
	fd  int    // -1 once it is sent; the client knows the id from then on

	gpu  *pipeline.Exported // on a GPU
	told bool               // the client knows the id
}

func newSlots() *slots {
	return &slots{byStart: map[*byte]*slot{}, lent: map[any]*slot{}, freed: make(chan struct{}, 1)}
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
		s.goes(sl)
	}
	return sl, sl.fd
}

// goes notes that the client may forget a slot. The caller holds mu.
func (s *slots) goes(sl *slot) {
	s.gone = append(s.gone, sl.id)
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// lend is the slot of an allocation on a GPU.
func (s *slots) lend(e pipeline.Exported) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.lent[e.Allocation]
	if sl == nil {
		s.last++
		sl = &slot{id: s.last, fd: -1, gpu: &e}
		s.lent[e.Allocation] = sl
	}
	return sl
}

// Freed forgets an allocation on a GPU. Its memory stays as long as the client has it
// open.
func (s *slots) Freed(allocation any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.lent[allocation]
	delete(s.lent, allocation)
	if sl != nil && sl.told {
		s.goes(sl)
	}
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
	if sl.gpu != nil && !sl.told {
		sl.told = true
		return []Memory{{ID: sl.id, Kind: cudaIPC, Bytes: sl.gpu.Bytes, Handle: hex.EncodeToString(sl.gpu.Handle[:]), UUID: sl.gpu.UUID}}, -1
	}
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
