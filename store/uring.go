//go:build uring && linux

package store

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// HasUring says whether the program was built with the reader of Uring.
const HasUring = true

// ring is one io_uring for all readers of a set of files. A goroutine of its own,
// locked to its thread, owns it: readers queue their blocks, it submits all that
// are queued in one call and sleeps in that same call until something completes.
// A reader that finds it asleep rings a bell, an eventfd that the ring itself
// reads, so that there is one place to wait and nothing to poll.
//
// What is in flight is bounded by the blocks of the pool, which the queues of the
// ring have room for: neither can overflow.
type ring struct {
	mu struct {
		sync.Mutex
		queue  []*block // to be submitted
		asleep bool     // the owner looks at the queue only after the bell
		closed bool
	}
	bell  *os.File // as a file, so that a late ring never writes to a stranger
	one   []byte   // what is written to it
	calls atomic.Uint64
	ended chan struct{}

	// The rest is the owner's.
	uring     *giouring.Ring
	tick      []byte   // what the bell is read into, a mapping like the blocks
	table     []*block // in flight, by number: also keeps them reachable
	inFlight  int      // with the bell and the cancellation
	batch     []*block
	armed     bool // the bell is being read
	cancelled bool
	visit     func(*giouring.CompletionQueueEvent) // complete; made once, to save garbage
	seen      uint32                               // completions
	rung      int32                                // what became of the bell
}

// request is a read of a block by the ring: set by the reader, answered by the
// owner.
type request struct {
	fd    int32
	force bool // let a thread of the kernel do it, which may wait
	n     uint32
	off   int64
	res   int32 // bytes read, or a negated error number
	done  chan struct{}
}

func newRequest() request { return request{done: make(chan struct{}, 1)} }

// User data of what is not a read; reads have the number of their block.
const (
	bellData   = 1 << 32
	cancelData = 2 << 32
)

// newRing makes a ring for at most limit reads at once and sees that it works.
func newRing(limit int) (*ring, error) {
	r := &ring{
		ended: make(chan struct{}), table: make([]*block, limit),
		one: binary.NativeEndian.AppendUint64(nil, 1),
	}
	r.visit = r.complete
	ready := make(chan error)
	go r.own(uint32(2*limit), ready)
	if err := <-ready; err != nil {
		<-r.ended
		return nil, nd.Errorf(nd.ErrUnsupported, "io_uring cannot be had here (%w): containers and kernel.io_uring_disabled forbid it, kernels before 5.6 lack it; read in another way", err)
	}
	return r, nil
}

// own is the life of the owner.
func (r *ring) own(entries uint32, ready chan<- error) {
	defer close(r.ended)
	runtime.LockOSThread() // the kernel takes submissions of one thread only
	defer runtime.UnlockOSThread()
	err := r.setUp(entries)
	if err == nil {
		err = r.try()
	}
	ready <- err
	for err == nil && r.step() {
	}
	r.tearDown()
}

func (r *ring) setUp(entries uint32) error {
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	r.bell = os.NewFile(uintptr(fd), "eventfd")
	if r.tick, err = unix.Mmap(-1, 0, len(r.one), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// With the flags, of Linux 6.1, completions are worked off when the owner asks
	// for them, and not by interrupting it.
	for _, flags := range []uint32{giouring.SetupSingleIssuer | giouring.SetupDeferTaskrun, 0} {
		u := giouring.NewRing()
		if err = u.QueueInit(entries, flags); err == nil {
			r.uring = u
			return nil
		}
	}
	return os.NewSyscallError("io_uring_setup", err)
}

// try reads the bell, which was made ringing: a kernel that knows io_uring but not
// this way to read shows here.
func (r *ring) try() error {
	r.arm()
	for r.inFlight > 0 {
		if err := r.enter(); err != nil {
			return err
		}
		if res := r.reap(); res < 0 {
			return os.NewSyscallError("read by io_uring", syscall.Errno(-res))
		}
	}
	return nil
}

// step submits, waits and answers once; false when all is cancelled and has ended.
func (r *ring) step() bool {
	r.submit()
	err := r.enter()
	r.mu.Lock()
	r.mu.asleep = false
	r.mu.Unlock()
	if err != nil {
		r.fail(err)
		return false
	}
	res := r.reap()
	if res < 0 && !r.cancelled && !again(-res) {
		r.fail(syscall.Errno(-res))
		return false
	}
	return r.inFlight > 0 || !r.cancelled
}

// submit hands all that is queued to the ring, for enter to submit. Once the ring
// is closed it cancels instead; the bell, which is not armed again, is the last to
// come back.
func (r *ring) submit() {
	r.mu.Lock()
	r.batch = append(r.batch[:0], r.mu.queue...)
	clear(r.mu.queue)
	r.mu.queue = r.mu.queue[:0]
	r.mu.asleep = true
	closed := r.mu.closed
	r.mu.Unlock()
	if !closed && !r.armed {
		r.arm()
	}
	for _, b := range r.batch {
		if closed {
			b.answer(-int32(syscall.ECANCELED))
			continue
		}
		r.prepare(b)
	}
	clear(r.batch)
	if closed && !r.cancelled {
		r.cancelled = true
		e := r.uring.GetSQE()
		e.PrepareCancel64(0, int(giouring.AsyncCancelAny|giouring.AsyncCancelAll))
		e.UserData = cancelData
		r.inFlight++
	}
}

func (r *ring) arm() {
	r.entry(int(r.bell.Fd()), r.tick, 0).UserData = bellData
	r.armed = true
}

func (r *ring) prepare(b *block) {
	e := r.entry(int(b.fd), b.mem[:b.n], b.off)
	e.UserData = uint64(b.id)
	if b.force {
		e.Flags |= giouring.SqeAsync
	}
	r.table[b.id] = b
}

// entry is a read. There is always one free: see ring.
func (r *ring) entry(fd int, mem []byte, off int64) *giouring.SubmissionQueueEntry {
	e := r.uring.GetSQE()
	e.PrepareRead(fd, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uint32(len(mem)), uint64(off))
	e.OpcodeFlags = 0 // is left as the entry's last use had it
	r.inFlight++
	return e
}

// enter submits and waits for one completion. Signals interrupt it, and a kernel
// short of memory wants its completions taken first: the caller comes again.
func (r *ring) enter() error {
	r.calls.Add(1)
	if _, err := r.uring.SubmitAndWait(1); err != nil {
		return lastingErrno(err)
	}
	return nil
}

// lastingErrno is nil for an error after which the same call may succeed.
func lastingErrno(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && again(int32(errno)) {
		return nil
	}
	return err
}

func again(errno int32) bool {
	e := syscall.Errno(errno)
	return e == syscall.EINTR || e == syscall.EAGAIN || e == syscall.EBUSY
}

// reap answers what has completed, and gives what became of the bell: negative if
// it could not be read.
func (r *ring) reap() (bell int32) {
	r.seen, r.rung = 0, 0
	r.uring.ForEachCQE(r.visit)
	r.uring.CQAdvance(r.seen)
	return r.rung
}

// complete takes one completion.
func (r *ring) complete(c *giouring.CompletionQueueEvent) {
	r.seen++
	r.inFlight--
	switch c.UserData {
	case bellData:
		r.armed, r.rung = false, c.Res
	case cancelData: // an old kernel refuses it: the reads then end by themselves
	default:
		b := r.table[c.UserData]
		r.table[c.UserData] = nil
		b.answer(c.Res)
	}
}

func (b *block) answer(res int32) {
	b.res = res
	b.done <- struct{}{}
}

// fail ends a ring that the kernel no longer serves. It may still write to what is
// in flight, so that memory is given up.
func (r *ring) fail(err error) {
	r.mu.Lock()
	r.mu.closed = true
	queue := r.mu.queue
	r.mu.queue = nil
	r.mu.Unlock()
	errno := syscall.EIO
	errors.As(err, &errno)
	for _, b := range queue {
		b.answer(-int32(errno))
	}
	for _, b := range r.table {
		if b != nil {
			b.lost = true
			b.answer(-int32(errno))
		}
	}
}

// tearDown gives back what setUp took, as far as it came.
func (r *ring) tearDown() {
	if r.uring != nil {
		r.uring.QueueExit()
	}
	if r.inFlight == 0 && r.tick != nil {
		_ = unix.Munmap(r.tick)
	}
	if r.bell != nil {
		_ = r.bell.Close() // an eventfd loses nothing
	}
}

// read is pread through the ring.
func (r *ring) read(file *os.File, b *block, n int, off int64) (int, error) {
	b.fd, b.n, b.off, b.force = int32(file.Fd()), uint32(n), off, false
	for {
		if !r.push(b) {
			return 0, nd.Errorf(nd.ErrClosed, "the set of open files")
		}
		<-b.done
		switch errno := syscall.Errno(-b.res); {
		case b.res >= 0:
			runtime.KeepAlive(file)
			return int(b.res), nil
		case errno == syscall.ECANCELED && r.isClosed():
			return 0, nd.Errorf(nd.ErrClosed, "the set of open files")
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN && !b.force:
			b.force = true
		default:
			return 0, errno
		}
	}
}

// push queues a read; false when the ring is closed.
func (r *ring) push(b *block) bool {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return false
	}
	r.mu.queue = append(r.mu.queue, b)
	wake := r.mu.asleep
	r.mu.asleep = false
	r.mu.Unlock()
	if wake {
		r.wake()
	}
	return true
}

// wake rings the bell. After the owner's end nobody is there to hear it.
func (r *ring) wake() { _, _ = r.bell.Write(r.one) }

func (r *ring) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.closed
}

// close cancels what is in flight and waits until the kernel has let go of it.
// Readers that wait get nd.ErrClosed.
func (r *ring) close() {
	r.mu.Lock()
	first := !r.mu.closed
	r.mu.closed = true
	r.mu.Unlock()
	if first {
		r.wake()
	}
	<-r.ended
}

// enters is the number of calls of io_uring_enter.
func (r *ring) enters() uint64 { return r.calls.Load() }
