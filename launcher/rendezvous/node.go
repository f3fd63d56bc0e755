package rendezvous

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/headrace/headrace/nd"
)

// group is a node of a job of several: the shell of a member.
type group struct {
	config  *Config
	host    string // of the endpoint
	address string // the endpoint
	key     []byte

	coordinator *coordinator // on one node of the job
	port        *Port        // held for the master, nil if it can't be here
	door        *Port        // the endpoint's, where an elastic job's coordinator listens
	link        *link
	events      chan Event
	documents   chan Document
	received    *queue[Document] // on their way to documents
	changed     chan struct{}    // Next should look again
	closing     context.Context
	close       context.CancelFunc
	running     sync.WaitGroup

	mu struct {
		sync.Mutex
		member   *member
		round    *Round       // that Next has not taken
		listener net.Listener // of a probe
		closed   bool
	}
}

// read takes the coordinator's messages until the connection ends.
func (g *group) read(j *joined) {
	defer func() {
		g.link.cut()
		g.endProbe()
	}()
	for {
		err := j.SetReadDeadline(time.Now().Add(g.link.timeout))
		var m *message
		if err == nil {
			m, err = readMessage(j.Reader, maxMessage)
		}
		g.mu.Lock()
		if err != nil {
			g.mu.member.lost(why(err, g.link.timeout))
		} else {
			g.mu.member.receive(m)
		}
		g.flushLocked()
		g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// flushLocked does what the member wants.
func (g *group) flushLocked() {
	out := g.mu.member.take()
	for _, m := range out.messages {
		if text, err := frame(m); err == nil {
			g.link.send(text)
		}
	}
	if out.round != nil || out.ended {
		g.mu.round = out.round
		g.rouse()
	}
	if out.event != nil {
		g.events <- *out.event // there is room: a round has one, and Next takes away what was left
	}
	if out.document != nil {
		// One that finds no room is dropped: to wait would keep events from the launcher.
		g.received.push(*out.document, len(out.document.Doc))
	}
	if out.round != nil || out.event != nil || out.ended {
		g.endProbeLocked()
	}
	if out.probe != nil {
		g.probeLocked(out.probe)
	}
}

func (g *group) Next(ctx context.Context) (Round, error) {
	g.mu.Lock()
	if g.mu.round == nil {
		select {
		case <-g.events: // the caller did without it
		default:
		}
		if err := g.mu.member.next(); err != nil {
			g.mu.Unlock()
			return Round{}, err
		}
		g.flushLocked()
	}
	g.mu.Unlock()
	for {
		g.mu.Lock()
		r, err := g.mu.round, g.mu.member.over
		g.mu.round = nil
		g.mu.Unlock()
		if r != nil {
			return *r, nil
		}
		if err != nil {
			g.rouse() // another call may wait too
			return Round{}, err
		}
		select {
		case <-ctx.Done():
			return Round{}, ctx.Err()
		case <-g.changed:
		}
	}
}

// rouse has Next look again.
func (g *group) rouse() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// deliver hands out the documents until Close.
func (g *group) deliver() {
	for {
		select {
		case <-g.received.ready:
		case <-g.closing.Done():
			return
		}
		for _, d := range g.received.take() {
			select {
			case g.documents <- d:
			case <-g.closing.Done():
				return
			}
		}
	}
}

func (g *group) Report(_ context.Context, o Outcome) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.member.report(o)
	g.flushLocked()
	return nil
}

func (g *group) Events() <-chan Event { return g.events }

func (g *group) Relayed() <-chan Document { return g.documents }

func (g *group) Relay(_ context.Context, to int, kind string, doc []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.mu.member.relay(to, kind, doc); err != nil {
		return err
	}
	g.flushLocked()
	return nil
}

// Close says goodbye, hears the others out, and ends what Join began.
func (g *group) Close() error {
	g.mu.Lock()
	if g.mu.closed {
		g.mu.Unlock()
		return nil
	}
	g.mu.closed = true
	if g.mu.member.over == nil {
		if text, err := frame(&message{Type: typeOutcome, Outcome: &Outcome{Round: g.mu.member.round.Number, Kind: Left}}); err == nil {
			g.link.send(text)
		}
		g.mu.member.over = nd.Errorf(nd.ErrClosed, "the group was closed")
	}
	g.mu.Unlock()
	g.rouse()
	g.close()
	g.endProbe()
	g.link.hangUp()
	var err error
	if g.coordinator != nil {
		err = g.coordinator.close()
	} else {
		// The coordinator hangs up when it has read the last message.
		timer := time.AfterFunc(g.config.CloseTimeout, g.link.cut)
		defer timer.Stop()
	}
	g.running.Wait()
	return errors.Join(err, g.port.Close(), g.door.Close())
}
