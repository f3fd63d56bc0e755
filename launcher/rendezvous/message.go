package rendezvous

import (
	"encoding/json"
	"io"

	"github.com/headrace/headrace/internal/jsonframe"
	"github.com/headrace/headrace/nd"
)

const (
	protocol = "headrace-rendezvous"
	version  = 1

	maxFirst   = 4 << 10  // bytes of a message before the peer has proved its key
	maxJoin    = 64 << 10 // of a join
	maxMessage = 16 << 20 // of any other: a document in base64, or a round of maxNodes nodes
)

// The types of messages. Those of a node:
const (
	typeJoin      = "join"      // who it is; the first message after the proofs
	typeReady     = "ready"     // no worker runs: the next round may begin
	typeListening = "listening" // the answer to listen
	typeProbed    = "probed"    // the answer to probe; Reason says why not
	typeOutcome   = "outcome"   // how its workers ended
)

// Those of the coordinator:
const (
	typeWelcome = "welcome" // the answer to join
	typeRefused = "refused" // the other answer; Retry: it may be another tomorrow
	typeListen  = "listen"  // to rank 0's node: let the others dial the master port
	typeProbe   = "probe"   // to all nodes of the round: dial the master
	typeRound   = "round"   // the round begins
	typeEvent   = "event"   // the round, or the job, ended
)

// Those of both:
const (
	typeBeat  = "beat"  // a sign of life
	typeRelay = "relay" // a document
)

// memberID numbers the nodes that joined, from 1; no number is given twice.
type memberID int64

// message is any message after the proofs.
type message struct {
	Type    string   `json:"type"`
	ID      memberID `json:"id,omitempty"` // welcome
	Join    *joining `json:"join,omitempty"`
	Agreed  *agreed  `json:"agreed,omitempty"` // round, probe, listen
	Outcome *Outcome `json:"outcome,omitempty"`
	Event   *Event   `json:"event,omitempty"`
	Relay   *relayed `json:"relay,omitempty"`
	Attempt int      `json:"attempt,omitempty"` // listen, listening, probe, probed: which check
	Reason  string   `json:"reason,omitempty"`
	Retry   bool     `json:"retry,omitempty"`
}

// joining is who a node is and which job it means to join.
type joining struct {
	Node        Node   `json:"node"`
	NodeRank    int    `json:"node_rank"` // -1: no wish
	RunID       string `json:"run_id"`
	Static      bool   `json:"static"`
	Min         int    `json:"min"`
	Max         int    `json:"max"`
	MaxRestarts int    `json:"max_restarts"`
	Live        bool   `json:"live,omitempty"`
	Port        int    `json:"port"` // held for the master, should this node have rank 0
}

// agreed is a round as the coordinator announces it: the same bytes to all nodes,
// each of which finds itself in Members.
type agreed struct {
	Number   int        `json:"number"`
	Restarts int        `json:"restarts"`
	Members  []memberID `json:"members,omitempty"` // by group rank
	Nodes    []Node     `json:"nodes,omitempty"`
	Addr     string     `json:"addr,omitempty"` // the master's; empty: the host of each node's endpoint
	Port     int        `json:"port,omitempty"`
	Late     bool       `json:"late,omitempty"` // to a node that comes into a round that runs
}

type relayed struct {
	Round int    `json:"round"`
	From  int    `json:"from"`
	To    int    `json:"to"`
	Kind  string `json:"kind"`
	Doc   []byte `json:"doc"`
}

// frame is a message, or what else is sent, as it is sent.
func frame(v any) ([]byte, error) { return jsonframe.Encode(v, maxMessage) }

func readMessage(r io.Reader, limit int) (*message, error) {
	text, err := jsonframe.Read(r, limit)
	if err != nil {
		return nil, err
	}
	return parseMessage(text)
}

// parseMessage reads a message and checks that its type has what belongs to it, so
// that the state machines need not.
func parseMessage(text []byte) (*message, error) {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "message: %w", err)
	}
	ok := true
	switch m.Type {
	case typeJoin:
		ok = m.Join != nil
	case typeOutcome:
		ok = m.Outcome != nil
	case typeRound, typeProbe:
		ok = m.Agreed != nil && len(m.Agreed.Members) == len(m.Agreed.Nodes) && len(m.Agreed.Nodes) <= maxNodes
	case typeEvent:
		ok = m.Event != nil
	case typeRelay:
		ok = m.Relay != nil && len(m.Relay.Doc) <= MaxDocument
	case typeReady, typeListening, typeProbed, typeWelcome, typeRefused, typeListen, typeBeat:
	default:
		return nil, nd.Errorf(nd.ErrUnsupported, "message of type %.80q", m.Type)
	}
	if !ok {
		return nil, nd.Errorf(nd.ErrCorrupt, "message of type %q: a part is missing or does not fit", m.Type)
	}
	return &m, nil
}
