package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// Options say what scenarios Draw makes.
type Options struct {
	Nodes    int // 0: 3 to 9, as the seed has it
	Ranks    int // of a node; 0: 0 to 3, as the seed has it
	Mode     Mode
	Profile  Profile
	Faults   []Kind        // those that may come; empty: none
	Duration time.Duration // in which faults come; 0: 30 s
	Break    coord.Fault
}

// Mode is that of the job.
type Mode uint8

// The modes.
const (
	Mixed Mode = iota // as the seed has it
	Lockstep
	Async
)

// ParseMode reads the name of a mode: mixed, lockstep or async.
func ParseMode(name string) (Mode, error) {
	for m, known := range []string{"mixed", "lockstep", "async"} {
		if name == known {
			return Mode(m), nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "mode %q: mixed, lockstep or async", name)
}

// ParseFaults reads a list of faults, or all or none.
func ParseFaults(list string) ([]Kind, error) {
	switch list {
	case "all":
		return Kinds(), nil
	case "none", "":
		return nil, nil
	}
	var kinds []Kind
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(Kinds(), Kind(name)) {
			return nil, nd.Errorf(nd.ErrConfig, "fault %q: all, none, or some of %v", name, Kinds())
		}
		kinds = append(kinds, Kind(name))
	}
	return kinds, nil
}

// Draw makes the scenario of a seed.
func Draw(seed uint64, o *Options) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	sc := Scenario{Seed: seed, Profile: o.Profile, Rack: 1 + r.IntN(3), Duration: 150 * time.Second, Break: o.Break}
	n := o.Nodes
	if n == 0 {
		n = 3 + r.IntN(7)
	}
	sc.Ranks = drawRanks(r, n, o.Ranks)
	sc.Network = Network{Latency: time.Duration(100+r.IntN(900)) * time.Microsecond, Jitter: time.Duration(1+r.IntN(2000)) * time.Microsecond}
	if len(o.Faults) > 0 {
		sc.Network.Loss = []float64{0, 0, 0.01, 0.05}[r.IntN(4)]
		sc.Network.Double = []float64{0, 0.02}[r.IntN(2)]
		sc.Network.Reorder = []float64{0, 0.02}[r.IntN(2)]
	}
	span := o.Duration
	if span == 0 {
		span = 30 * time.Second
	}
	drawJob(r, &sc, o.Mode, span)
	drawExpect(r, &sc)
	if len(o.Faults) > 0 {
		drawActions(r, &sc, o.Faults, span)
	}
	return sc
}

func drawRanks(r *rand.Rand, nodes, ranks int) (list []int) {
	for range nodes {
		switch {
		case ranks > 0:
			list = append(list, ranks)
		case r.IntN(10) == 0:
			list = append(list, 0)
		default:
			list = append(list, 1+r.IntN(3))
		}
	}
	return list
}

// drawJob makes a job that is about as long as the faults.
func drawJob(r *rand.Rand, sc *Scenario, mode Mode, span time.Duration) {
	sc.Pace = time.Duration(20+r.IntN(200)) * time.Millisecond
	if n := len(sc.Ranks); n > 64 {
		sc.Pace *= time.Duration(n / 64) // a large job is not to take the longer for its ranks
	}
	sc.Job = coord.Job{Name: "job", Plan: "plan", Epochs: int64(1 + r.IntN(4)), Voters: []int{1, 3, 5, 7, 7, 7}[r.IntN(6)]}
	if len(sc.Ranks) > 2 && sc.Job.Voters == 1 {
		sc.Job.Voters = 3
	}
	if mode == Lockstep || mode == Mixed && r.IntN(2) == 0 {
		sc.Job.Mode = coord.Lockstep
		sc.Job.Lease = int64(1 + r.IntN(24))
		steps := int64(span / (2 * sc.Pace)) // a step is as slow as its slowest rank
		sc.Job.Steps = steps * int64(1+r.IntN(3)) / 2 / sc.Job.Epochs
		sc.Job.N = sc.Job.Steps * int64(8+r.IntN(100))
	} else {
		sc.Job.Mode = coord.Async
		sc.Job.Ahead = int64(1 + r.IntN(40))
		sc.Job.Reserve = int64(r.IntN(40))
		world := int64(1)
		for _, ranks := range sc.Ranks {
			world += int64(ranks)
		}
		most := 300 + 60*sc.Job.Ahead // who is less ahead commits smaller parts, and those are what a run costs
		sc.Job.N = min(most*max(1, world/30), world*int64(span/sc.Pace)*int64(1+r.IntN(4))/sc.Job.Epochs)
		sc.Pace *= 2 // for a piece of up to mostTaken positions
	}
	if r.IntN(12) == 0 { // fewer than there are ranks, or none
		few := int64(r.IntN(4))
		sc.Job.N, sc.Job.Steps = few, min(sc.Job.Steps, few)
	}
}

// drawExpect has some jobs wait for ranks: those that are there, or some that join.
func drawExpect(r *rand.Rand, sc *Scenario) {
	kind := r.IntN(12)
	if kind > 1 {
		return
	}
	for _, ranks := range sc.Ranks {
		sc.Job.Expect += ranks
	}
	if kind == 1 {
		sc.Job.Expect += 2
		sc.Actions = append(sc.Actions, Action{At: time.Duration(500+r.IntN(1000)) * time.Millisecond, Kind: Join, N: 2})
	}
}

func drawActions(r *rand.Rand, sc *Scenario, kinds []Kind, span time.Duration) {
	at := 2*time.Second + time.Duration(r.Int64N(int64(2*time.Second)))
	if r.IntN(8) == 0 {
		at = time.Duration(r.Int64N(int64(2 * time.Second))) // while the job forms
	}
	for range 1 + r.IntN(10) {
		sc.Actions = append(sc.Actions, drawAction(r, kinds[r.IntN(len(kinds))], len(sc.Ranks), at.Round(time.Millisecond)))
		gap := span / 4
		if r.IntN(2) == 0 {
			gap = time.Second // into what the last one has set off
		}
		if at += time.Duration(r.Int64N(int64(gap))); at > span {
			break
		}
	}
}

func drawAction(r *rand.Rand, kind Kind, nodes int, at time.Duration) Action {
	target := func() Target {
		if r.IntN(3) == 0 {
			return node(r.IntN(nodes))
		}
		return roles()[r.IntN(len(roles()))]
	}
	// Most last a few seconds, some longer than any patience.
	lasts := func(most time.Duration) time.Duration {
		if r.IntN(3) > 0 {
			most = min(most, 3*time.Second)
		}
		return (100*time.Millisecond + time.Duration(r.Int64N(int64(most)))).Round(time.Millisecond)
	}
	a := Action{At: at, Kind: kind, Who: target()}
	switch kind {
	case Kill:
		a.N = r.IntN(2) * r.IntN(40)
		a.By = lasts(20 * time.Second)
	case Stop:
		a.For = lasts(60 * time.Second)
	case Cut, Doubt:
		a.Other, a.For, a.N = target(), lasts(20*time.Second), r.IntN(3)
	case Flap:
		a.Other, a.For, a.By, a.N = target(), lasts(20*time.Second), lasts(2*time.Second), 2
	case Partition:
		a.Who, a.For = "", lasts(30*time.Second)
		for place := range nodes {
			if r.IntN(2) == 0 {
				a.Set = append(a.Set, place)
			}
		}
	case Rack:
		a.Who, a.N = "", r.IntN(2)
		a.For = lasts(20 * time.Second)
		a.By = a.For
	case Split:
		a.Who, a.For = "", lasts(30*time.Second)
	case Noise:
		a.Who, a.For, a.N = "", lasts(20*time.Second), 5+r.IntN(40)
	case Slow:
		a.For, a.By = lasts(10*time.Second), time.Duration(50+r.IntN(1500))*time.Millisecond
	case Leave:
		a.By = lasts(20 * time.Second)
	case Join:
		a.Who, a.N = "", 1+r.IntN(3)*r.IntN(4)
	case Alien:
		a.Who, a.N = "", r.IntN(3)
	case Stall:
		a.For = lasts(20 * time.Second)
	case Rank:
		a.N, a.For = r.IntN(3), lasts(10*time.Second)
		if a.For%3 == 0 {
			a.For = 0 // another one has its place at once, with commits under way
		}
	case Redo:
		a.Who, a.N = "", 1+r.IntN(10)
	case Drift:
		a.N = r.IntN(101) - 50
	case Jump:
		a.By = 400*time.Millisecond + lasts(59500*time.Millisecond) // 0.5 s to 60 s
	}
	if slices.Contains([]Kind{Kill, Leave}, kind) && r.IntN(3) == 0 {
		a.By = 0 // for good
	}
	return a
}
