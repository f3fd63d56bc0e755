package page

import "time"

// Snapshot is what one process knows of a job at a moment. What is not known is nil, or
// empty, and left out of the JSON: a voter knows more than others, the leader most.
// Nobody changes it afterwards.
type Snapshot struct {
	Time  time.Time `json:"time"`
	Agent Agent     `json:"agent"`
	Job   Job       `json:"job"`

	Status Status `json:"status"`
	// Reason is why nothing is delivered, where nothing is; else empty.
	Reason string `json:"reason,omitempty"`

	View     View     `json:"view"`
	Nodes    []Node   `json:"nodes"` // in the order of the view
	Ranks    []Rank   `json:"ranks"` // by rank
	Progress Progress `json:"progress"`
	Coverage Coverage `json:"coverage"`
	Rates    Rates    `json:"rates"`
	Gossip   Gossip   `json:"gossip"`
	Counters Counters `json:"counters"`
	Events   []Event  `json:"events"` // the newest last
}

// Status is how the job is, in a word.
type Status string

// From well to gone.
const (
	Running Status = "running"
	Over    Status = "over"    // all epochs are done
	Joining Status = "joining" // this agent is not in the job yet
	Waiting Status = "waiting" // ranks that are expected have not come
	Halted  Status = "halted"  // a rank was lost: the trainer must say where to go on
	Cut     Status = "cut off" // no majority of the voters answers
	Ended   Status = "ended"   // this agent has no part in the job any more
)

// Agent is who tells.
type Agent struct {
	ID      string    `json:"id"` // as a member; empty before it is one
	Name    string    `json:"name"`
	Address string    `json:"address"`
	Version string    `json:"version"` // of headrace
	Began   time.Time `json:"began"`
	Witness bool      `json:"witness"`
	Member  bool      `json:"member"` // of the view
	Voter   bool      `json:"voter"`
	Leader  bool      `json:"leader"`
}

// Job is what its members mean by it. Numbers are 0 where they are not known.
type Job struct {
	Name   string `json:"name"`
	Mode   string `json:"mode,omitempty"` // lockstep or async
	Plan   string `json:"plan,omitempty"`
	N      int64  `json:"n"`      // positions of an epoch
	Steps  int64  `json:"steps"`  // of an epoch
	Epochs int64  `json:"epochs"` // 0: as many as are asked for
	Expect int    `json:"expect"` // ranks before anything is delivered
}

// View is the newest agreed view.
type View struct {
	Number uint64     `json:"number"`
	Since  *time.Time `json:"since,omitempty"` // when this agent knew it; nil: there is none
	World  int        `json:"world"`
	Voters []string   `json:"voters"` // IDs
	Leader string     `json:"leader,omitempty"`
	Index  uint64     `json:"index"` // of the log, to which all this is known
	Cut    int64      `json:"cut"`   // lockstep: the step from which it holds
}

// Node is a member of the view.
type Node struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Rack    string `json:"rack,omitempty"`
	Address string `json:"address"`
	Ranks   []int  `json:"ranks"` // local ranks; the first is rank First
	First   int    `json:"first"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
	Lost    bool   `json:"lost"` // gossip holds it for dead
	// Lag is by how many steps it is behind the furthest; Silent how long its last report
	// is ago, in seconds. The leader knows them.
	Lag    *int64   `json:"lag,omitempty"`
	Silent *float64 `json:"silent_s,omitempty"`
}

// Rank is a rank of the view.
type Rank struct {
	Rank  int `json:"rank"`
	Node  int `json:"node"` // its place in Nodes
	Local int `json:"local"`
	// Rate is samples a second, over the last ten or so. Voters know that of all ranks,
	// other agents that of their own.
	Rate *float64 `json:"rate,omitempty"`
	Lane []Span   `json:"lane,omitempty"` // async: what it has to deliver
	Left *int64   `json:"left,omitempty"` // positions of the lane
	// Stats are the newest of its loader, where that is on this node.
	Stats map[string]float64 `json:"stats,omitempty"`
	PID   int                `json:"pid,omitempty"`
}

// Span is positions from the first up to and without the second.
type Span [2]int64

// Progress is how far the job is. Steps are counted through the job.
type Progress struct {
	Epoch   int64  `json:"epoch"`
	Step    int64  `json:"step"`    // lockstep: below it all is done by all
	Horizon int64  `json:"horizon"` // lockstep: below it all may be delivered
	Redos   uint64 `json:"redos"`
	Open    bool   `json:"open"`
	Halted  bool   `json:"halted"`
	Over    bool   `json:"over"`
}

// Coverage is what is done of the epoch.
type Coverage struct {
	Of    int64  `json:"of"` // positions; 0: not known
	Done  int64  `json:"done"`
	Spans []Span `json:"spans,omitempty"` // which; nil: not known here
	// Leased is up to which position may be delivered, lockstep.
	Leased int64   `json:"leased,omitempty"`
	Digest string  `json:"digest,omitempty"` // of those that are done
	Last   *Closed `json:"last,omitempty"`   // nil: no epoch was closed
}

// Closed is an epoch that is complete.
type Closed struct {
	Epoch  int64  `json:"epoch"`
	Count  int64  `json:"count"`
	Digest string `json:"digest,omitempty"` // async
}

// Rates are those of the whole job.
type Rates struct {
	Samples float64 `json:"samples_per_s"`
	// History is the same in the past, one a second, the newest last.
	History []float64 `json:"history"`
}

// Gossip is what memberlist says of itself.
type Gossip struct {
	Members int `json:"members"`
	Health  int `json:"health"` // its score: 0 is well
}

// Counters count since the agent began.
type Counters struct {
	Views       int64            `json:"views"`     // that were installed here
	Evicted     int64            `json:"evicted"`   // members that a new view has not any more
	Admitted    int64            `json:"admitted"`  // members that a new view has
	Elections   int64            `json:"elections"` // that this agent has won
	Rejoins     int64            `json:"rejoins"`   // of this agent, as another member
	Sent        int64            `json:"messages_sent"`
	Received    int64            `json:"messages_received"`
	Dropped     map[string]int64 `json:"messages_dropped"` // by reason
	LastSettle  float64          `json:"last_settle_s"`    // from the first sign of a change to its view
	Effective   int64            `json:"parts_effective"`  // of commits, as a voter
	Void        int64            `json:"parts_void"`
	LogEntries  int              `json:"log_entries"`
	LogVoters   int              `json:"log_voters"`
	Followers   int              `json:"followers"`
	InboxLength int              `json:"inbox"`
}

// Event is something that happened.
type Event struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}
