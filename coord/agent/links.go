package agent

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/internal/sealed"
	"github.com/headrace/headrace/nd"
)

const (
	// queuedMessages waits for one peer; beyond it the oldest is dropped, as a network
	// would: all that the group says is said again.
	queuedMessages = 256
	// queuedBytes is the same in bytes.
	queuedBytes = 64 << 20
	// allQueuedBytes is the same for all peers together, with what is being sent: a message
	// that asks to be admitted names any address, and thousands of peers may stand still.
	allQueuedBytes = 256 << 20
	// maxPeers bounds the addresses that something is sent to: each has a goroutine.
	maxPeers = 4096
	// allReadBytes bounds the messages that are being read, of all streams; those of up to
	// freeBytes are not counted, so that long ones do not keep them out.
	allReadBytes = 256 << 20
	freeBytes    = 64 << 10
	// sendTimeout is how long a peer may take to read one message.
	sendTimeout = 5 * time.Second
	dialTimeout = 2 * time.Second
	// idleLink is how long a stream without messages stays.
	idleLink = time.Minute
	// maxLinks bounds the streams that others open.
	maxLinks = 4096
	// maxUnproved bounds those of them whose first message has not opened: who has no key takes no
	// place of one that has it.
	maxUnproved = 1024
	// proveTimeout is how long that message may take to come: it is sent as the stream opens.
	proveTimeout = 5 * time.Second
)

// links are the streams to other agents. Each peer that is talked to has a goroutine,
// and each stream from one; close ends them all.
type links struct {
	key      []byte
	listener net.Listener
	receive  func(message []byte) // must not wait for long
	drops    *drops
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		closed  bool
		out     map[string]*link
		in      map[net.Conn]bool
		proved  int           // of those, streams whose first message has opened
		waiting int           // messages that are queued, or being sent
		bytes   int           // of those
		reading int           // bytes of messages that are being read
		flushed chan struct{} // closed when there are none; nil: nobody waits for that
	}
}

// link is what is to be sent to one address.
type link struct {
	mu    sync.Mutex // taken with links.mu held, or alone; never the other way round
	queue [][]byte
	bytes int
	wake  chan struct{} // holds one
}

func openLinks(listener net.Listener, key []byte, drops *drops, receive func([]byte)) *links {
	ctx, cancel := context.WithCancel(context.Background())
	l := &links{key: key, listener: listener, receive: receive, drops: drops, ctx: ctx, cancel: cancel}
	l.mu.out, l.mu.in = map[string]*link{}, map[net.Conn]bool{}
	l.running.Go(l.accept)
	return l
}

// send queues a message for an address. It never waits.
func (l *links) send(address string, message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return
	}
	k := l.mu.out[address]
	if k == nil && len(l.mu.out) >= maxPeers {
		l.drops.add(dropQueue)
		return
	}
	if k == nil {
		k = &link{wake: make(chan struct{}, 1)}
		l.mu.out[address] = k
		l.running.Go(func() { l.write(address, k) })
	}
	dropped, size := k.put(message)
	l.mu.waiting++
	l.mu.bytes += len(message)
	l.gone(dropped, size)
	for l.mu.bytes > allQueuedBytes {
		m := l.fullest().take()
		if m == nil {
			break // all of it is being sent
		}
		dropped++
		l.gone(1, len(m))
	}
	l.drops[dropQueue].Add(int64(dropped))
}

// fullest is the link with the most bytes queued, for who holds the lock.
func (l *links) fullest() (most *link) {
	bytes := -1
	for _, k := range l.mu.out {
		if n := k.queued(); n > bytes {
			most, bytes = k, n
		}
	}
	return most
}

func (k *link) queued() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}

// gone notes that messages wait no more, for who holds the lock.
func (l *links) gone(messages, bytes int) {
	l.mu.waiting -= messages
	l.mu.bytes -= bytes
	if l.mu.waiting == 0 && l.mu.flushed != nil {
		close(l.mu.flushed)
		l.mu.flushed = nil
	}
}

// sent notes that a message has gone, or was given up.
func (l *links) sent(m []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone(1, len(m))
}

// flush waits until all is sent that was to be, but not for long.
func (l *links) flush(within time.Duration) {
	l.mu.Lock()
	if l.mu.waiting == 0 || l.mu.flushed != nil {
		l.mu.Unlock()
		return
	}
	flushed := make(chan struct{})
	l.mu.flushed = flushed
	l.mu.Unlock()
	select {
	case <-flushed:
	case <-time.After(within):
	}
}

// put queues a message, and says how many others had to give way, and their bytes.
func (k *link) put(message []byte) (dropped, size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue = append(k.queue, message)
	k.bytes += len(message)
	for len(k.queue) > queuedMessages || k.bytes > queuedBytes && len(k.queue) > 1 {
		k.bytes -= len(k.queue[0])
		size += len(k.queue[0])
		k.queue = k.queue[1:]
		dropped++
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return dropped, size
}

func (k *link) take() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		return nil
	}
	m := k.queue[0]
	k.queue = k.queue[1:]
	k.bytes -= len(m)
	return m
}

// write sends what is queued, over a stream that it opens when there is something. A
// peer that cannot be reached loses what waits for it.
func (l *links) write(address string, k *link) {
	var conn *sealed.Conn
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer hangUp()
	for {
		m := k.take()
		if m == nil {
			idle := time.NewTimer(idleLink)
			select {
			case <-k.wake:
				idle.Stop()
				continue
			case <-l.ctx.Done():
				idle.Stop()
				return
			case <-idle.C:
			}
			if l.retire(address, k) {
				return
			}
			continue
		}
		if conn == nil {
			conn = l.open(address)
		}
		failed := conn == nil || conn.Send(m, sendTimeout) != nil
		l.sent(m)
		if failed {
			hangUp()
			l.drops.add(dropUnreachable)
			if l.ctx.Err() != nil {
				return
			}
		}
	}
}

// retire forgets a link that nothing waits for.
func (l *links) retire(address string, k *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) > 0 {
		return false
	}
	delete(l.mu.out, address)
	return true
}

func (l *links) open(address string) *sealed.Conn {
	raw, err := dialStream(l.ctx, sourceOf(l.listener), address, messageStream, dialTimeout)
	if err != nil {
		return nil
	}
	stream := &hungUp{raw, context.AfterFunc(l.ctx, func() { _ = raw.Close() })}
	conn, err := sealed.Client(stream, l.key)
	if err != nil {
		_ = stream.Close()
		return nil
	}
	return conn
}

// accept takes streams of other agents.
func (l *links) accept() {
	for {
		raw, err := l.listener.Accept()
		if err != nil {
			select {
			case <-l.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond): // too many open files, say
				continue
			}
		}
		if !l.admit(raw) {
			_ = raw.Close()
			continue
		}
		l.running.Go(func() { l.read(raw) })
	}
}

func (l *links) admit(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.mu.proved >= maxLinks || len(l.mu.in)-l.mu.proved >= maxUnproved {
		l.drops.add(dropStreams)
		return false
	}
	l.mu.in[raw] = true
	return true
}

// read hands on what comes, until the stream ends or does not open.
func (l *links) read(raw net.Conn) {
	proved := false
	defer func() {
		_ = raw.Close()
		l.mu.Lock()
		delete(l.mu.in, raw)
		if proved {
			l.mu.proved--
		}
		l.mu.Unlock()
	}()
	conn, err := sealed.Server(raw, l.key)
	if err != nil {
		return
	}
	held := 0
	conn.Claim = func(n int) bool {
		if n <= freeBytes {
			return true
		}
		held += n
		return l.claim(n)
	}
	defer func() { l.claim(-held) }()
	for wait := proveTimeout; ; wait = 2 * idleLink {
		if err := raw.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return
		}
		m, err := conn.Receive(coord.MaxMessage)
		if err != nil {
			if errors.Is(err, nd.ErrCorrupt) {
				l.drops.add(dropKey)
			}
			return
		}
		if !proved {
			if proved = l.prove(); !proved {
				return
			}
		}
		l.receive(m)
		if held > 0 {
			l.claim(-held)
			held = 0
		}
	}
}

// prove gives a stream whose first message has opened a place among those; false: there is none.
func (l *links) prove() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.proved >= maxLinks {
		l.drops.add(dropStreams)
		return false
	}
	l.mu.proved++
	return true
}

// claim takes memory for reading, or gives it back. Who gets none hangs up, and still gives
// back what it asked for: what was to come is said again.
func (l *links) claim(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.reading += n
	if n > 0 && l.mu.reading > allReadBytes {
		l.drops.add(dropStreams)
		return false
	}
	return true
}

// close ends all streams, and returns when no goroutine is left.
func (l *links) close() {
	l.mu.Lock()
	l.mu.closed = true
	for raw := range l.mu.in {
		_ = raw.Close()
	}
	l.mu.Unlock()
	l.cancel()
	_ = l.listener.Close()
	l.running.Wait()
}
