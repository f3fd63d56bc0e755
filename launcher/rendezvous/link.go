package rendezvous

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Limits of what waits to be written to one peer, and once more of what is being
// written. A peer that falls behind further is lost. The largest burst is the plans of
// all ranks on their way to node 0.
const (
	queuedMessages = 1 << 18
	queuedBytes    = 256 << 20
)

// link is a connection to a peer that has proved its key. One goroutine reads it,
// one writes it (write); send, hangUp and cut may be called by anyone.
type link struct {
	conn    net.Conn
	beat    time.Duration // a sign of life is sent that often
	timeout time.Duration // for the peer to take a message
	out     *queue[[]byte]
	last    chan struct{} // closed by hangUp
	once    sync.Once
}

func newLink(conn net.Conn, c *Config) *link {
	return &link{conn: conn, beat: c.beat(), timeout: c.lostAfter(), out: newQueue[[]byte](queuedMessages, queuedBytes), last: make(chan struct{})}
}

// send queues a frame, and never blocks.
func (l *link) send(text []byte) {
	if !l.out.push(text, len(text)) {
		l.cut()
	}
}

// hangUp ends the connection when what is queued has been written. The peer may
// still send until it hangs up too.
func (l *link) hangUp() { l.once.Do(func() { close(l.last) }) }

// cut ends the connection at once. The reader notices.
func (l *link) cut() {
	_ = l.conn.Close() // what it had to say, the reader has
	l.hangUp()
}

// write sends what is queued, and signs of life, until hangUp.
func (l *link) write() {
	alive, _ := frame(&message{Type: typeBeat})
	beats := time.NewTicker(l.beat)
	defer beats.Stop()
	for {
		select {
		case <-l.out.ready:
			l.writeAll(l.out.take())
		case <-beats.C:
			l.writeAll([][]byte{alive})
		case <-l.last:
			l.writeAll(l.out.take())
			l.closeWrite()
			return
		}
	}
}

// writeAll cuts the connection where a frame may have gone out in part.
func (l *link) writeAll(frames [][]byte) {
	for _, text := range frames {
		err := l.conn.SetWriteDeadline(time.Now().Add(l.timeout))
		if err == nil {
			_, err = l.conn.Write(text)
		}
		if err != nil {
			l.cut()
			return
		}
	}
}

// closeWrite says that nothing more will come. Closing the connection instead, with
// messages of the peer unread, would make the kernel take back what the peer has
// not read yet.
func (l *link) closeWrite() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() == nil {
			return
		}
	}
	_ = l.conn.Close() // a pipe, whose writes have arrived; or broken already
}

// why is the reason of a reader's end for people.
func why(err error, silence time.Duration) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no sign of life for %v", silence)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
		return "its launcher ended"
	}
	return errorText(err)
}
