package session

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// loan is a batch that is out: what a token stands for. The consumers' streams are
// asked when it comes back: until then they may get more work that uses it. A driver
// may crash when it is asked for a stream that was destroyed, so that only streams
// that live as long as the process are asked; others are not known.
type loan struct {
	batch *pipeline.Batch
	out   *atomic.Int64
	lent  bool // memory on a GPU that another process has open

	mu       sync.Mutex
	streams  []uintptr // that consumers use the batch on
	anywhere bool      // some use it on a stream that is not known
}

// The streams of DLPack that stand for no CUstream of another thread.
const (
	noStream        = -1 // the consumer does not say
	perThreadStream = 2  // the default stream of the consumer's thread
)

// use notes a stream that a consumer uses the batch on, as DLPack numbers them.
func (l *loan) use(stream int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stream == noStream || stream == perThreadStream {
		l.anywhere = true
		return
	}
	if s := uintptr(stream); !slices.Contains(l.streams, s) {
		l.streams = append(l.streams, s)
	}
}

// waits reports whether giveBack may have to wait: for work on the GPU, or, once the
// pipeline is closed, until the other process has closed the memory.
func (l *loan) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.anywhere || l.lent
}

// giveBack releases the batch after the work that its consumers' streams have. Its
// errors are of a GPU that is lost, whose next batch tells.
func (l *loan) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stream := range l.streams {
		l.batch.Retain()
		_ = l.batch.ReleaseOn(stream)
	}
	if l.anywhere {
		_ = l.batch.ReleaseAfterAll()
	} else {
		_ = l.batch.Release(nil)
	}
	l.out.Add(-1)
}

func (s *Session) loan(token uint64) (*loan, error) {
	l, ok := s.get(token).(*loan)
	if !ok {
		return nil, nd.Errorf(nd.ErrClosed, "batch %d was given back", token)
	}
	return l, nil
}

// Use notes a stream of a GPU on which the batch of a token is used, numbered as in
// DLPack: 1 is the legacy default stream, 2 that of the calling thread, -1 one that
// is not known, all others are a CUstream, which is never destroyed. The batch's
// memory is not written again before the work is done that the stream has when the
// token comes back.
func (s *Session) Use(token uint64, stream int64) error {
	l, err := s.loan(token)
	if err != nil {
		return err
	}
	l.use(stream)
	return nil
}

// After makes the batch of a token wait for the work that a stream has now, numbered
// as for Use; the stream may be destroyed after the call. 2 is that of this thread.
func (s *Session) After(token uint64, stream int64) error {
	l, err := s.loan(token)
	if err != nil {
		return err
	}
	if stream == noStream {
		l.use(noStream)
		return nil
	}
	l.batch.Retain()
	return l.batch.ReleaseOn(uintptr(stream))
}

// Copy copies a field of the batch of a token to memory of the host, which has
// exactly its bytes, and waits for that. The caller keeps the token meanwhile.
func (s *Session) Copy(token uint64, field int, dst []byte) error {
	l, err := s.loan(token)
	if err != nil {
		return err
	}
	if n := len(l.batch.Fields()); field < 0 || field >= n {
		return nd.Errorf(nd.ErrBug, "field %d of a batch of %d", field, n)
	}
	if n := l.batch.Bytes(field); int64(len(dst)) != n {
		return nd.Errorf(nd.ErrBug, "%d bytes of room for a tensor of %d", len(dst), n)
	}
	return l.batch.CopyTo(dst, field)
}
