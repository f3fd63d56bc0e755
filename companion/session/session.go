package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// Options are what a session is given by its transport. The zero value is that of
// a library within the client's own process.
type Options struct {
	// Memory makes the memory of the batches of one pipeline; nil is memory of this
	// process.
	Memory func() pipeline.Memory
	// Device is that of the engine: a client may ask for it by name or by "", and for
	// no other. "" leaves the choice to the client.
	Device string
	// Driver is the path of libcuda, "" for the system's.
	Driver string
	// Cores is the default of a pipeline's Workers; 0 leaves it to the pipeline.
	Cores int
	// Pipelines bounds the pipelines, loaders and reads of several sessions together;
	// nil is no bound.
	Pipelines *Quota
	// Objects bounds the handles of this session; 0 is no bound.
	Objects int
	// Join takes loaders into jobs whose ranks come and go; nil leaves that out.
	Join Join
	// Stderr is where the first panic is dumped; nil is os.Stderr.
	Stderr io.Writer
}

// Session is one client: the objects behind its handles, its batches that are out,
// and the poison. All methods may be called from any goroutine.
type Session struct {
	options Options
	poison  atomic.Pointer[string]
	loaders atomic.Int64 // opened so far
	mu      struct {
		sync.Mutex
		last  uint64
		held  map[uint64]any // object or *loan
		count int            // of objects
		ended bool
	}
	closing sync.WaitGroup // objects that were given back
}

// object is what a handle stands for.
type object interface{ close() error }

// New makes a session without objects.
func New(o Options) *Session {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	s := &Session{options: o}
	s.mu.held = map[uint64]any{}
	return s
}

// putObject makes a handle for an object; where it cannot, the object is closed.
func (s *Session) putObject(o object) (uint64, error) {
	handle, err := s.put(o)
	if err != nil {
		return 0, errors.Join(err, o.close())
	}
	return handle, nil
}

// put makes a number for an object or a loan. Numbers are never used twice.
func (s *Session) put(held any) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return 0, nd.Errorf(nd.ErrClosed, "the session has ended")
	}
	if _, ok := held.(object); ok {
		if most := s.options.Objects; most > 0 && s.mu.count >= most {
			return 0, nd.Errorf(nd.ErrBudget, "%d objects are open, the engine allows %d a client: close some", s.mu.count, most)
		}
		s.mu.count++
	}
	s.mu.last++
	s.mu.held[s.mu.last] = held
	return s.mu.last, nil
}

// get is what a number stands for, nil if nothing.
func (s *Session) get(number uint64) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.held[number]
}

// take removes what a number stands for: of several callers one gets it.
func (s *Session) take(number uint64) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.mu.held[number]
	delete(s.mu.held, number)
	if _, isObject := held.(object); isObject {
		s.mu.count--
	}
	return held, ok
}

// lookup is the object of a handle as a T.
func lookup[T any](s *Session, handle uint64) (T, error) {
	t, ok := s.get(handle).(T)
	if !ok {
		return t, closedHandle(handle)
	}
	return t, nil
}

func closedHandle(handle uint64) error {
	return nd.Errorf(nd.ErrClosed, "handle %d was closed", handle)
}

// Guard runs what a client asked for. It refuses once the session is poisoned, and
// turns a panic into the poison.
func (s *Session) Guard(body func() (Status, error)) (st Status, err error) {
	if p := s.poison.Load(); p != nil {
		return Failed, nd.Errorf(nd.ErrBug, "an earlier call panicked (%s); start a new process", *p)
	}
	defer func() {
		if r := recover(); r != nil {
			st, err = Failed, s.Panicked(r)
		}
	}()
	return body()
}

// Panicked poisons the session with what recover returned.
func (s *Session) Panicked(r any) error {
	text := fmt.Sprint(r)
	if s.poison.CompareAndSwap(nil, &text) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		_, _ = fmt.Fprintf(s.options.Stderr, "headrace: panic: %s\n\n%s\n", text, stacks) // there is nowhere else to say it
	}
	return nd.Errorf(nd.ErrBug, "panic: %s; please report the stacks on stderr", text)
}

// Detach takes an object's handle away. What it returns closes the object and may
// take long; it must be called.
func (s *Session) Detach(handle uint64) (closeObject func() error, err error) {
	if _, err := lookup[object](s, handle); err != nil {
		return nil, err
	}
	taken, mine := s.take(handle)
	if !mine {
		return nil, closedHandle(handle)
	}
	return taken.(object).close, nil
}

// Push adds one batch of samples to a pipeline, as numbers: for each sample its
// id, then for each field array, flip, rank, and start and stop of each axis. It
// never waits: Again says that there is no room and nothing was taken.
func (s *Session) Push(handle uint64, words []int64, samples int) (Status, error) {
	p, err := lookup[*pipelineObject](s, handle)
	if err != nil {
		return Failed, err
	}
	return p.push(words, samples)
}

// Next waits for the next batch of a pipeline, loader or read and gives it a token.
// The batch is the client's once deliver has told it the token. Again says that
// none came within the timeout, Ended that an epoch or what was finished has ended;
// a ctx that ends is its error. No batch is lost by waiting for too short a time.
func (s *Session) Next(ctx context.Context, handle uint64, timeout time.Duration, deliver func(d Delivery, token uint64) error) (Status, error) {
	from, err := lookup[stream](s, handle)
	if err != nil {
		return Failed, err
	}
	return s.next(ctx, from, timeout, deliver)
}

// GiveBack ends what a number stands for: the batch of a token is released, the
// object of a handle is closed in its own time. Unknown numbers are ignored.
func (s *Session) GiveBack(number uint64) {
	taken, _ := s.take(number)
	switch held := taken.(type) {
	case *loan:
		s.giveBackLoan(held)
	case object:
		if !s.beginClosing() {
			_ = held.close() // nobody is left to hear of it
			return
		}
		go func() {
			defer s.closing.Done()
			_ = held.close()
		}()
	}
}

// giveBackLoan releases a batch. One that has to wait on the host does not keep the
// numbers behind it from being read.
func (s *Session) giveBackLoan(l *loan) {
	if !l.waits() || !s.beginClosing() {
		l.giveBack()
		return
	}
	go func() {
		defer s.closing.Done()
		l.giveBack()
	}()
}

// beginClosing counts an object that is closed in its own time, before the end of the
// session.
func (s *Session) beginClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.ended {
		s.closing.Add(1)
	}
	return !s.mu.ended
}

// TakeBack gives back every number that comes, eight bytes each in host order,
// until the reader ends.
func (s *Session) TakeBack(numbers io.Reader) {
	defer func() {
		if r := recover(); r != nil {
			_ = s.Panicked(r) // the next call reports it
		}
	}()
	var number [8]byte
	for {
		if _, err := io.ReadFull(numbers, number[:]); err != nil {
			return
		}
		s.GiveBack(binary.NativeEndian.Uint64(number[:]))
	}
}

// End closes every object and releases every batch, once the client is gone, and
// waits for that. What is opened meanwhile is closed too.
func (s *Session) End() {
	s.mu.Lock()
	s.mu.ended = true
	all := s.mu.held
	s.mu.held, s.mu.count = map[uint64]any{}, 0
	s.mu.Unlock()
	// Loans first: a pipeline that closes with none out frees its memory at once.
	for _, held := range all {
		if out, ok := held.(*loan); ok {
			out.giveBack()
		}
	}
	var objects sync.WaitGroup
	for _, held := range all {
		if o, ok := held.(object); ok {
			objects.Go(func() {
				_ = o.close() // nobody is left to hear of it
			})
		}
	}
	objects.Wait()
	s.closing.Wait()
}
