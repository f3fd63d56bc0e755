package sim

import (
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

// detection is how gossip finds a loss, calibrated to real memberlist: 0.3 s after the
// first probe that fails an observer suspects, and all survivors hold the lost one for dead
// within 7.5 s, fast 2.5 s, with 5 % loss.
type detection struct {
	suspect, suspectMost time.Duration // of one observer
	dead, deadMost       time.Duration // of the first observer
	spread               time.Duration // until the last one knows
	rejoin               time.Duration // after a heal, at most
}

func (p Profile) detection() detection {
	if p == Fast {
		return detection{200 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond, 2100 * time.Millisecond, 400 * time.Millisecond, 30 * time.Second}
	}
	return detection{500 * time.Millisecond, 2 * time.Second, 4500 * time.Millisecond, 6800 * time.Millisecond, 700 * time.Millisecond, 30 * time.Second}
}

// bound is how long after the last fault a job with a majority may take until all live
// nodes are in one view: gossip is whole again, grace, a restart of who was evicted
// meanwhile, and the changes that follow.
func (p Profile) bound() time.Duration {
	d, c := p.detection(), p.config()
	return d.rejoin + 2*(d.deadMost+d.spread+c.Grace+c.Patience) + 20*time.Second
}
