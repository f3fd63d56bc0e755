package companion

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

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
	lent    map[any]*slot    // on a GPU, by pipeline.Exported.Allocation
	open    map[uint64]*slot // of these, what the client may have open
	gone    []uint64         // freed or about to be, and the client was told of them
	freed   chan struct{}

	patience time.Duration // with a client that does not close what goes
	over     chan struct{} // closed when it never will
	ending   sync.Once
}

// closePatience is how long memory on a GPU waits for a client to close it: a program
// that is stopped in a debugger, or that keeps the interpreter to itself, does not.
const closePatience = 10 * time.Second

// slot is the memory of one batch.
type slot struct {
	id  uint64
	mem []byte // the whole mapping, on the host
	fd  int    // -1 once it is sent; the client knows the id from then on

	gpu    *pipeline.Exported // on a GPU
	told   bool               // the client knows the id
	closed chan struct{}      // closed when the client has closed it
}

func newSlots() *slots {
	return &slots{
		byStart: map[*byte]*slot{}, lent: map[any]*slot{}, open: map[uint64]*slot{}, freed: make(chan struct{}, 1),
		patience: closePatience, over: make(chan struct{}),
	}
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
		sl = &slot{id: s.last, fd: -1, gpu: &e, closed: make(chan struct{})}
		s.lent[e.Allocation] = sl
	}
	return sl
}

// Recall tells the client that it may forget these allocations on a GPU, and waits
// until it has closed them, has ended, or for as long as there is patience.
func (s *slots) Recall(allocations []any) {
	late := time.NewTimer(s.patience)
	defer late.Stop()
	for _, sl := range s.recalled(allocations) {
		select {
		case <-sl.closed:
		case <-s.over:
			return
		case <-late.C:
			return
		}
	}
}

// recalled lists those that the client knows, having told it of them.
func (s *slots) recalled(allocations []any) (known []*slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range allocations {
		sl := s.lent[a]
		delete(s.lent, a)
		if sl != nil && sl.told {
			s.goes(sl)
			known = append(known, sl)
		}
	}
	return known
}

// closed notes that the client has closed memory on a GPU, or could not open it.
func (s *slots) closed(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.open[id]; sl != nil {
		delete(s.open, id)
		close(sl.closed)
	}
}

// end says that the client closes nothing any more.
func (s *slots) end() { s.ending.Do(func() { close(s.over) }) }

// closedBit marks a number in the release pipe as the id of memory that was closed.
const closedBit = 1 << 63

// words is the release pipe without the ids of memory, which are taken note of. It is
// read a number at a time.
type words struct {
	pipe   io.Reader
	memory *slots
}

func (w words) Read(p []byte) (int, error) {
	for {
		n, err := io.ReadFull(w.pipe, p[:min(8, len(p))])
		if err != nil || n < 8 {
			return n, err
		}
		number := binary.NativeEndian.Uint64(p)
		if number&closedBit == 0 {
			return n, nil
		}
		w.memory.closed(number &^ closedBit)
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
		s.open[sl.id] = sl
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
