package sim

import (
	"fmt"
	"time"
)

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant string        `json:"invariant"`
	Time      time.Duration `json:"time"`
	Node      int           `json:"node"` // -1: of all
	Seen      string        `json:"seen"`
}

func (v Violation) String() string {
	who := "the job"
	if v.Node >= 0 {
		who = fmt.Sprintf("node %d", v.Node)
	}
	return fmt.Sprintf("%s at %v, %s: %s", v.Invariant, v.Time, who, v.Seen)
}

// Result is what a run came to.
type Result struct {
	Seed       uint64
	Violations []Violation
	Digest     [2]uint64 // of the history
	Time       time.Duration

	Views     int // that were installed
	LastView  uint64
	Recovery  []time.Duration // from a loss to views without it, everywhere
	Change    []int           // of each: messages in that time that the clock alone did not say
	Messages  int
	Caused    int // of these: not what the clock alone says
	Bytes     int64
	Dropped   int // messages that made no sense
	Corrupted int
	Elections int
	Faults    int
	Events    int
	Entries   int // most that a voter kept
	Known     int // most others, in all its lists, that an agent kept
	Log       int // most bytes of entries, of a snapshot, and of messages to be sent at once
	Snapshot  int
	Outbox    int
	Delivered int64
	// Of the ranks of an async job: most pieces that one held at a time, and how often one became
	// void that was not the last of them.
	Held, VoidWithin int

	Over    bool // all epochs are closed
	Stopped bool // a majority of the voters was lost
	Epochs  int64
	Covered int64 // positions of the open epoch that are committed
	N       int64

	ended    bool
	progress [3]int64
	moved    time.Duration
}
