package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Group is one node's place in its job. The node's launcher owns it and calls:
//
//	for {
//		round, err := group.Next(ctx)   // ErrFinished, *Stopped, or the round
//		start the workers
//		wait for the workers to end, or for an Event
//		group.Report(ctx, outcome)      // unless the Event came first
//		event := <-group.Events()       // unless it came first
//		end the workers that still run
//		go on for Restart; leave the loop for Stop and Done
//	}
//	group.Close()
//
// Each round that Next returned ends in exactly one Event, whichever way it
// ends: also where the connection to the other nodes breaks. All methods may be
// called from several goroutines at a time.
type Group interface {
	// Next tells the others that no worker of this node runs, and blocks until the
	// job has agreed on a round that this node is in. It returns *Stopped where the
	// job stopped instead, and ErrFinished where the job ended while this node stood
	// by as a spare.
	Next(ctx context.Context) (Round, error)
	// Report says how this node's workers of a round ended, or that this node was
	// told to stop (Signalled, at any time, with whatever round). Reports of rounds
	// that are over are dropped. It does not block: a report that is to be heard must
	// come before Close, not beside it.
	Report(ctx context.Context, outcome Outcome) error
	// Events carries what the others' outcomes mean for this node. It is never
	// closed.
	Events() <-chan Event
	// Relay sends a small document (at most MaxDocument bytes) to the node of group
	// rank to in the current round, or to all other nodes (Everyone).
	Relay(ctx context.Context, to int, kind string, doc []byte) error
	// Relayed carries the documents that other nodes sent here. Those of former
	// rounds are left out. Documents that nobody takes are dropped, newest first,
	// once QueuedDocuments, or QueuedBytes of them, wait. It is never closed.
	Relayed() <-chan Document
	// Close leaves the job, and stops it where it cannot go on without this node.
	// It waits, at most Config.CloseTimeout, until the others have heard of it.
	Close() error
}

// Limits of Relay.
const (
	MaxDocument     = 4 << 20   // bytes of one document
	QueuedDocuments = 1 << 18   // documents that wait for a receiver: the plans of all ranks of a large job
	QueuedBytes     = 256 << 20 // bytes of them
	Everyone        = -1        // Relay's "to" for all other nodes
)

// Node is what one node tells the others about itself.
type Node struct {
	// Addr is the address, name or IP, at which the others can reach this node.
	// Empty: the address by which the rendezvous sees it.
	Addr       string `json:"addr"`
	LocalWorld int    `json:"local_world"` // workers on this node
	Host       string `json:"host"`        // for people, and with Boot the node's identity
	PID        int    `json:"pid"`         // of the launcher
	Boot       string `json:"boot"`        // boot id of the host
	Role       string `json:"role"`
	Agent      int    `json:"agent,omitempty"` // port of its agent, in a live job
}

// Round is one start of the job's workers. All nodes of a round have the same
// Round, save for Rank, MasterAddr's spelling and their own Nodes entry's Addr.
type Round struct {
	Number     int    // counts the starts, from 0
	Restarts   int    // restarts charged to the job's budget so far, the same on every node
	Rank       int    // group rank of this node
	Nodes      []Node // by group rank
	MasterAddr string // reachable from this node: it was dialled
	MasterPort int    // held for rank 0 of the job
	RunID      string
	Late       bool // the node came while the round ran, in a live job
}

// World is the number of ranks of the round.
func (r Round) World() int {
	world := 0
	for i := range r.Nodes {
		world += r.Nodes[i].LocalWorld
	}
	return world
}

// Base is the first rank of a node: nodes have consecutive ranks in the order of
// their group ranks.
func (r Round) Base(node int) int {
	base := 0
	for i := range node {
		base += r.Nodes[i].LocalWorld
	}
	return base
}

// Document is a small document from another node.
type Document struct {
	Round int
	From  int // group rank
	Kind  string
	Doc   []byte
}

// OutcomeKind says how a node's workers of a round ended.
type OutcomeKind string

// The outcomes.
const (
	Succeeded OutcomeKind = "succeeded" // every worker exited 0
	Failed    OutcomeKind = "failed"    // a worker failed, or could not be started
	Signalled OutcomeKind = "signalled" // the launcher was told to stop: the whole job does
	Left      OutcomeKind = "left"      // the node goes away, the job may go on without it
)

// Outcome is what a node reports about a round.
type Outcome struct {
	Round  int         `json:"round"`
	Kind   OutcomeKind `json:"kind"`
	Cause  *Failure    `json:"cause,omitempty"`  // with Failed
	Signal int         `json:"signal,omitempty"` // with Signalled
}

// Failure is the death of one worker, as its node saw it.
type Failure struct {
	Rank      int             `json:"rank"`
	LocalRank int             `json:"local_rank"`
	Node      int             `json:"node"` // group rank, filled in by the group
	Host      string          `json:"host"` // filled in by the group
	PID       int             `json:"pid"`
	ExitCode  int             `json:"exit_code"`
	Signal    int             `json:"signal"`               // 0: it exited
	Time      time.Time       `json:"time"`                 // by the clock of its node
	Message   string          `json:"message,omitempty"`    // one line, where there was no worker to fail
	ErrorFile string          `json:"error_file,omitempty"` // path on its node
	Error     json.RawMessage `json:"error,omitempty"`      // the document of the error file
}

// EventKind says what a node has to do.
type EventKind string

// The events.
const (
	Restart EventKind = "restart" // end the workers and call Next
	Stop    EventKind = "stop"    // end the workers; the job is over
	Done    EventKind = "done"    // every node succeeded; the job is over
)

// Event ends a round.
type Event struct {
	Kind   EventKind `json:"kind"`
	Round  int       `json:"round"`
	Cause  *Failure  `json:"cause,omitempty"`  // the worker whose failure brought it about, if one did
	Signal int       `json:"signal,omitempty"` // of Stop: the signal that a node was stopped by
	Reason string    `json:"reason,omitempty"` // one line, for Restart and Stop
}

// LostDocument is the kind of a document that tells why a node is lost, in a live job.
const LostDocument = "rendezvous/lost"

// ErrFinished is what Next returns to a node that the job did without.
var ErrFinished = errors.New("the job ended while this node stood by")

// Stopped is the error of Next where the job stopped before the round began.
type Stopped struct{ Event Event }

func (s *Stopped) Error() string { return s.Event.Reason }
