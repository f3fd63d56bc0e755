package rendezvous

import (
	"context"
	"crypto/hmac"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/headrace/headrace/nd"
)

// probeLocked answers the coordinator's check of the master's address: dial it, or
// be dialled.
func (g *group) probeLocked(m *message) {
	if m.Type == typeListen {
		g.endProbeLocked()
		g.answer(typeListening, m.Attempt, g.listenLocked(m.Attempt))
		return
	}
	if g.mu.closed {
		return
	}
	host := m.Agreed.Addr
	if host == "" {
		host = g.host
	}
	address := net.JoinHostPort(host, strconv.Itoa(m.Agreed.Port))
	g.running.Go(func() {
		g.answer(typeProbed, m.Attempt, g.dialMaster(host, address, m.Attempt))
	})
}

func (g *group) answer(kind string, attempt int, err error) {
	m := &message{Type: kind, Attempt: attempt}
	if err != nil {
		m.Reason = errorText(err)
	}
	if text, err := frame(m); err == nil {
		g.link.send(text)
	}
}

// listenLocked lets the others dial the held port. It answers with a token, so that
// they know to have reached this node.
func (g *group) listenLocked(attempt int) error {
	if g.mu.closed || g.port == nil {
		return nd.Errorf(nd.ErrBug, "this node holds no port for the master")
	}
	l, err := g.config.network.listen("", g.port.Number)
	if err != nil {
		return nd.Errorf(nd.ErrIO, "%w", err)
	}
	g.mu.listener = l
	text, err := frame(&message{Type: typeProbed, Attempt: attempt, Reason: string(token(g.key, g.config.RunID, attempt))})
	if err != nil {
		return err
	}
	g.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// The text fits an empty socket's buffer.
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(text)
			_ = conn.Close()
		}
	})
	return nil
}

func (g *group) endProbe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endProbeLocked()
}

func (g *group) endProbeLocked() {
	if g.mu.listener != nil {
		_ = g.mu.listener.Close() // the port goes to rank 0 now
		g.mu.listener = nil
	}
}

// dialMaster tries the master's address as a worker would.
func (g *group) dialMaster(host, address string, attempt int) error {
	ctx, cancel := context.WithTimeout(g.closing, probeTimeout/2)
	defer cancel()
	var last error
	for {
		err := g.dialOnce(ctx, address, attempt)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the end of our patience explains nothing
			last = err
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return nd.Errorf(nd.ErrIO, "%s%w", explain(last, host, address), silent{last})
		}
	}
}

func (g *group) dialOnce(ctx context.Context, address string, attempt int) error {
	conn, err := g.config.network.dial(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the read notices
	defer stop()
	if err := conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	m, err := readMessage(conn, maxFirst)
	if err != nil {
		return fmt.Errorf("%w: what answers is not rank 0's node", errNotOurs)
	}
	if !hmac.Equal([]byte(m.Reason), token(g.key, g.config.RunID, attempt)) {
		return fmt.Errorf("%w: another node answers", errNotOurs)
	}
	return nil
}
