package coord

import (
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Version is that of entries, messages and snapshots. Agents of another one are not admitted.
const Version = 2

// Mode is how the ranks of a job move.
type Mode uint8

const (
	// Lockstep: all ranks deliver the same step, as collectives make them.
	Lockstep Mode = iota
	// Async: each rank delivers at its own pace, and commits.
	Async
)

func (m Mode) String() string {
	if m == Async {
		return "async"
	}
	return "lockstep"
}

// ParseMode reads what String writes.
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{Lockstep, Async} {
		if name == m.String() {
			return m, nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "mode %q: lockstep or async", name)
}

// Job is what all members of a job must mean. It does not change while the job lives.
type Job struct {
	Name   string // of the run
	Plan   string // sampler.Stream.PlanSummary, or any text that only the same plan has
	Mode   Mode
	N      int64 // positions of an epoch
	Steps  int64 // of an epoch, lockstep
	Epochs int64 // of the job; 0: as many as are asked for
	Voters int   // most agents that decide, odd
	Expect int   // ranks that must be there before anything is delivered; 0: one

	// Lease is how many steps are leased at once, lockstep.
	Lease int64
	// Ahead is how many positions a rank may have delivered and not committed, async.
	Ahead int64
	// Reserve is how many positions at the begin of a lane stay with it when work is
	// shared out again, async: they are likely to be under way.
	Reserve int64
}

const (
	// DefaultVoters outlive three of their own.
	DefaultVoters = 7
	// DefaultLease is half a minute of steps of 60 ms before a job without a majority
	// stops.
	DefaultLease = 256
	// MaxText bounds names and addresses in an entry, in bytes.
	MaxText = 255
	// MaxRanks bounds the ranks of a member, and of a view.
	MaxRanks = 1 << 20
)

// Validate reports everything that is wrong with the job.
func (j Job) Validate() error {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(len(j.Name) <= MaxText, "Name has %d bytes, at most %d are taken", len(j.Name), MaxText)
	check(len(j.Plan) <= MaxText, "Plan has %d bytes, at most %d are taken", len(j.Plan), MaxText)
	check(j.N >= 0, "N is %d, must be at least 0", j.N)
	check(j.Epochs >= 0 && j.Epochs <= math.MaxInt32, "Epochs is %d, must be in 0 to 2^31-1", j.Epochs)
	check(j.Voters >= 1 && j.Voters%2 == 1 && j.Voters <= maxVoters, "Voters is %d, must be odd and at most %d", j.Voters, maxVoters)
	check(j.Expect >= 0 && j.Expect <= maxRanks, "Expect is %d, must be in 0 to %d", j.Expect, maxRanks)
	switch j.Mode {
	case Lockstep:
		check(j.Steps >= 0 && j.Steps <= math.MaxInt32, "Steps is %d, must be in 0 to 2^31-1", j.Steps)
		check(j.Lease >= 1 && j.Lease <= math.MaxInt32, "Lease is %d, must be in 1 to 2^31-1", j.Lease)
	case Async:
		check(j.Ahead >= 1, "Ahead is %d, must be at least 1", j.Ahead)
		check(j.Reserve >= 0, "Reserve is %d, must be at least 0", j.Reserve)
	default:
		check(false, "Mode is %d", j.Mode)
	}
	if len(wrong) > 0 {
		return nd.Errorf(nd.ErrConfig, "job: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// last is the number of the step behind the last one of the job.
func (j Job) last() int64 {
	if j.Epochs == 0 {
		return math.MaxInt64
	}
	return j.Epochs * j.Steps
}
