package rendezvous

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
)

// member is one node's side of the job: it turns the coordinator's messages into
// rounds and events, and keeps the promise that each round ends in exactly one
// event. Like machine it is pure, and whoever owns it serialises the calls. Each
// call may add to out.
type member struct {
	id       memberID
	host     string // of the endpoint, as this node spells it
	runID    string
	endpoint string

	state     memberState
	round     Round
	succeeded bool // in the round
	released  bool // the exit barrier fell: this node goes on alone
	over      error
	out       memberOutput
}

type memberState int

const (
	idle    memberState = iota // between two calls of Next
	waiting                    // in Next
	working                    // in a round without its event
)

// memberOutput is what is to be done after a call.
type memberOutput struct {
	messages []*message // for the coordinator
	round    *Round     // for Next
	event    *Event
	document *Document
	probe    *message // dial, or listen
	ended    bool     // Next has an error to return
}

// next asks for a round. It returns an error where there will be none.
func (b *member) next() error {
	if b.over != nil {
		return b.over
	}
	if b.state == working {
		return nd.Errorf(nd.ErrBug, "Next was called before round %d ended", b.round.Number)
	}
	b.state = waiting
	b.out.messages = append(b.out.messages, &message{Type: typeReady})
	return nil
}

// report takes the outcome of this node's workers.
func (b *member) report(o Outcome) {
	if b.over != nil || o.Kind != Signalled && (b.state != working || o.Round != b.round.Number) {
		return
	}
	if o.Cause != nil {
		cause := *o.Cause
		cause.Node = b.round.Rank
		if cause.Host == "" {
			cause.Host = b.round.Nodes[b.round.Rank].Host
		}
		if !sendable(cause.Error) {
			cause.Error = nil
		}
		cause.Message = strings.ToValidUTF8(cause.Message[:min(len(cause.Message), maxText)], "")
		o.Cause = &cause
	}
	if b.released {
		b.reportAlone(o)
		return
	}
	b.succeeded = o.Kind == Succeeded
	b.out.messages = append(b.out.messages, &message{Type: typeOutcome, Outcome: &o})
}

// Limits of a failure's parts: an outcome that is too long for a message would not be
// sent, and the job wait for it for ever.
const (
	maxText     = 64 << 10 // bytes of the message
	maxErrorDoc = 1 << 20  // of the error file's document; escaped it may have six times as many
)

// sendable reports whether an error file's document can be part of a message. A worker
// may have written anything: no JSON, or JSON that is nested so deep that within a
// message it is too deep for encoding/json.
func sendable(doc []byte) bool {
	const levels = 16
	within := slices.Concat(bytes.Repeat([]byte("["), levels), doc, bytes.Repeat([]byte("]"), levels))
	return len(doc) <= maxErrorDoc && json.Valid(doc) && json.Valid(within)
}

// reportAlone ends the round of a node that the others have not waited for.
func (b *member) reportAlone(o Outcome) {
	switch o.Kind {
	case Succeeded:
		b.end(Event{Kind: Done})
	case Failed:
		b.end(Event{Kind: Stop, Cause: o.Cause, Reason: o.Cause.text()})
	case Signalled, Left:
		b.end(Event{Kind: Stop, Signal: o.Signal, Reason: fmt.Sprintf("this node was stopped by signal %d", o.Signal)})
	}
}

// relay sends a document.
func (b *member) relay(to int, kind string, doc []byte) error {
	switch {
	case b.over != nil || b.state != working:
		return nd.Errorf(nd.ErrClosed, "no round runs: a document of kind %q has no receiver", kind)
	case to != Everyone && (to < 0 || to >= len(b.round.Nodes)):
		return nd.Errorf(nd.ErrShape, "no node %d in a round of %d", to, len(b.round.Nodes))
	case len(doc) > MaxDocument:
		return nd.Errorf(nd.ErrBudget, "a document of %d bytes, at most %d are taken", len(doc), MaxDocument)
	case b.released || to == Everyone && len(b.round.Nodes) == 1:
		return nil
	}
	b.out.messages = append(b.out.messages, &message{Type: typeRelay, Relay: &relayed{Round: b.round.Number, To: to, Kind: kind, Doc: doc}})
	return nil
}

// receive takes a message of the coordinator.
func (b *member) receive(m *message) {
	if b.over != nil || b.released {
		return
	}
	switch m.Type {
	case typeRound:
		b.begin(m.Agreed)
	case typeEvent:
		b.finish(*m.Event)
	case typeListen, typeProbe:
		b.out.probe = m
	case typeRelay:
		if r := m.Relay; b.state == working && r.Round == b.round.Number {
			b.out.document = &Document{Round: r.Round, From: r.From, Kind: r.Kind, Doc: r.Doc}
		}
	}
}

func (b *member) begin(a *agreed) {
	rank := slices.Index(a.Members, b.id)
	if b.state != waiting || rank < 0 {
		b.fail("a round was announced that this node is not waiting for")
		return
	}
	b.state, b.succeeded = working, false
	b.round = Round{
		Number: a.Number, Restarts: a.Restarts, Rank: rank, Nodes: a.Nodes,
		MasterAddr: a.Addr, MasterPort: a.Port, RunID: b.runID, Late: a.Late,
	}
	if a.Addr == "" {
		b.round.MasterAddr = b.host
	}
	b.out.round = &b.round
}

// finish takes the coordinator's event.
func (b *member) finish(e Event) {
	switch {
	case e.Kind == Done && b.state == working && !b.succeeded:
		b.released = true
	case b.state == working:
		b.end(e)
	case e.Kind == Done:
		b.over, b.out.ended = ErrFinished, true
	case e.Kind == Stop:
		b.over, b.out.ended = &Stopped{e}, true
	}
}

// end ends the round.
func (b *member) end(e Event) {
	e.Round = b.round.Number
	b.state = idle
	b.out.event = &e
	switch e.Kind {
	case Restart:
	case Stop:
		b.over = &Stopped{e}
	case Done:
		b.over = ErrFinished
	}
}

// lost takes the end of the connection to the coordinator.
func (b *member) lost(why string) {
	if b.over == nil && !b.released {
		b.fail(fmt.Sprintf("lost the rendezvous at %s: %s", b.endpoint, why))
	}
}

// fail ends the job for this node.
func (b *member) fail(why string) {
	e := Event{Kind: Stop, Round: b.round.Number, Reason: why}
	if b.state == working {
		b.end(e)
		return
	}
	b.over, b.out.ended = &Stopped{e}, true
}

// take returns the output so far and begins a new one.
func (b *member) take() memberOutput {
	out := b.out
	b.out = memberOutput{}
	return out
}
