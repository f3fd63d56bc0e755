package group

import (
	"fmt"

	"github.com/headrace/headrace/coord"
)

// Event is something that happened, for logs and metrics.
type Event struct {
	Kind    EventKind
	View    *coord.View
	ID      coord.ID // of the agent that it is about
	Seq     uint64
	Part    coord.Part    // Decided
	Seat    uint64        // Decided: whose part it is
	Verdict coord.Verdict // Decided
	Reason  string
	Effect  coord.Effect // Applied
	Entry   coord.Entry  // Applied
	Index   uint64       // Applied, Reconfigured
	Term    uint64       // Applied, Reconfigured
	// Voters and Outgoing, as in Replica, are the voters as this replica knew them when it found that
	// the entry is committed, Applied and Reconfigured. At the leader that found it first they are those
	// whose majorities have decided: by then a change of voters just before may not be applied.
	Voters, Outgoing []uint64
	// NewVoters and NewOutgoing decide from then on, Reconfigured.
	NewVoters, NewOutgoing []uint64
}

// EventKind is what happened.
type EventKind uint8

// The kinds.
const (
	Viewed       EventKind = iota // this agent knows a new view
	Led                           // this agent leads
	Dropped                       // a message made no sense
	Foreign                       // a message or a stamp was another job's
	Decided                       // a part of a commit of this agent was applied
	Refused                       // this agent is not admitted
	Ended                         // this agent has no part in the job any more
	Applied                       // a voter has applied an entry
	Broken                        // this voter met what cannot be, and ends
	Reconfigured                  // a voter has applied a change of voters
)

func (k EventKind) String() string {
	names := [...]string{"view", "leads", "dropped", "foreign", "decided", "refused", "ended", "applied", "broken", "reconfigured"}
	if int(k) >= len(names) {
		return fmt.Sprintf("event %d", uint8(k))
	}
	return names[k]
}

// Events gives what happened, once.
func (n *Node) Events() []Event {
	out := n.events
	n.events = nil
	return out
}

func (n *Node) event(e Event) { n.events = append(n.events, e) }
