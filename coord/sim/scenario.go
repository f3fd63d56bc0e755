package sim

import (
	"math"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// Scenario is everything that a run depends on: two runs of equal scenarios have one
// history.
type Scenario struct {
	Seed    uint64
	Profile Profile
	Job     coord.Job
	Ranks   []int // of each node at the begin; 0: a witness
	Rack    int   // nodes of a rack
	Network Network
	Pace    time.Duration // that a rank takes for its work, in the mean; 0: ranks do nothing
	// Duration is how long a run may be after its last fault, and how long it is where
	// nothing goes wrong and the job does not end.
	Duration time.Duration
	Actions  []Action // in the order of time

	// Break is a bug that is switched on. It takes the build tag coordfault.
	Break coord.Fault
}

// Network is how links behave when nothing is wrong in particular.
type Network struct {
	Latency, Jitter                time.Duration
	Loss, Double, Reorder, Corrupt float64 // share of messages
}

// Profile is one of the two sets of times of an agent.
type Profile uint8

// The profiles.
const (
	Default Profile = iota
	Fast
)

func (p Profile) String() string { return [...]string{"default", "fast"}[p] }

// config is the agents' own.
func (p Profile) config() group.Config {
	if p == Fast {
		return group.Fast()
	}
	return group.Default()
}

// detection is how gossip of so many nodes finds a loss. The first observer gives a node up
// once memberlist's suspicion has run out, which begins with a probe that fails; others hear
// of it by the next packets. The parts that are drawn are those of real memberlist with 5 %
// loss, as TestModelIsMeasured compares them.
type detection struct {
	probe          time.Duration // between two probes
	dead, deadMost time.Duration // of the first observer
	spread         time.Duration // until the last one knows, at most
	rejoin         time.Duration // after a heal, at most
}

func (p Profile) detection(nodes int) detection {
	d := detection{probe: 500 * time.Millisecond, spread: 250 * time.Millisecond, rejoin: 15 * time.Second}
	patience := 4.0 // memberlist's SuspicionMult
	if p == Fast {
		d.probe, d.spread, patience = 150*time.Millisecond, 100*time.Millisecond, 3
	}
	scale := math.Round(100 * max(1, math.Log10(float64(max(1, nodes))))) // of all machines the same
	suspicion := time.Duration(patience*scale) * d.probe / 100
	d.dead, d.deadMost = suspicion+d.probe*6/10, suspicion+d.probe*4
	return d
}

// healed is how long after the end of a partition gossip may take to be whole again: what
// is promised.
const healed = 30 * time.Second

// bound is how long after the last fault a job with a majority may take until all live
// nodes are in one view: gossip is whole again, grace, a restart of who was evicted
// meanwhile, and the changes that follow.
func (p Profile) bound() time.Duration {
	d, c := p.detection(1<<12), p.config()
	return healed + 2*(d.deadMost+d.spread+c.Grace+c.Patience) + 20*time.Second
}
