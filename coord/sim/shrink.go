package sim

import "time"

// Breaks reports, for Shrink, whether a scenario breaks an invariant first of all. Once done is
// closed it says no of all, at once.
func Breaks(invariant string, done <-chan struct{}) func(*Scenario) bool {
	return func(sc *Scenario) bool {
		r := Run(*sc, Watch{Done: done})
		return r != nil && len(r.Violations) > 0 && r.Violations[0].Invariant == invariant
	}
}

// Shrink looks for a smaller scenario that still fails: fewer actions, fewer nodes and
// ranks, shorter faults, less work, a quieter network. It asks fails at most so often.
func Shrink(sc Scenario, runs int, fails func(*Scenario) bool) Scenario {
	s := shrinker{best: sc, most: runs, fails: fails}
	for again := true; again && s.runs < s.most; {
		again = s.actions()
		again = s.nodes() || again
		again = s.ranks() || again
		again = s.times() || again
		again = s.work() || again
		again = s.network() || again
	}
	return s.best
}

type shrinker struct {
	best  Scenario
	runs  int
	most  int
	fails func(*Scenario) bool
}

// try takes a scenario if it still fails.
func (s *shrinker) try(change func(*Scenario)) bool {
	if s.runs >= s.most {
		return false
	}
	sc := s.best
	sc.Actions = append([]Action(nil), sc.Actions...)
	sc.Ranks = append([]int(nil), sc.Ranks...)
	change(&sc)
	if s.runs++; !s.fails(&sc) {
		return false
	}
	s.best = sc
	return true
}

// actions drops halves of the actions, then quarters, down to single ones.
func (s *shrinker) actions() (smaller bool) {
	for size := max(1, len(s.best.Actions)/2); ; size /= 2 {
		for from := 0; from < len(s.best.Actions); {
			to := min(from+size, len(s.best.Actions))
			if s.try(func(sc *Scenario) { sc.Actions = append(sc.Actions[:from], sc.Actions[to:]...) }) {
				smaller = true
			} else {
				from = to
			}
		}
		if size <= 1 {
			return smaller
		}
	}
}

// nodes drops the last ones.
func (s *shrinker) nodes() (smaller bool) {
	for n := len(s.best.Ranks); n > 1; n-- {
		if !s.try(func(sc *Scenario) { sc.Ranks = sc.Ranks[:n-1] }) {
			return smaller
		}
		smaller = true
	}
	return smaller
}

func (s *shrinker) ranks() (smaller bool) {
	for i := range s.best.Ranks {
		if s.best.Ranks[i] > 1 && s.try(func(sc *Scenario) { sc.Ranks[i] = 1 }) {
			smaller = true
		}
	}
	return smaller
}

// times makes faults shorter.
func (s *shrinker) times() (smaller bool) {
	for i := range s.best.Actions {
		for _, half := range []func(*Action){
			func(a *Action) { a.For = (a.For / 2).Round(time.Millisecond) },
			func(a *Action) { a.By = (a.By / 2).Round(time.Millisecond) },
			func(a *Action) { a.N /= 2 },
		} {
			before := s.best.Actions[i]
			after := before
			half(&after)
			if (after.For > 10*time.Millisecond || after.For == before.For) && (after.By > 10*time.Millisecond || after.By == before.By) && after.String() != before.String() {
				smaller = s.try(func(sc *Scenario) { sc.Actions[i] = after }) || smaller
			}
		}
	}
	return smaller
}

// work makes the job smaller.
func (s *shrinker) work() (smaller bool) {
	j := s.best.Job
	if j.N > 4 || j.Steps > 4 {
		smaller = s.try(func(sc *Scenario) { sc.Job.N, sc.Job.Steps = j.N/2, j.Steps/2 })
	}
	if j.Epochs > 1 {
		smaller = s.try(func(sc *Scenario) { sc.Job.Epochs = 1 }) || smaller
	}
	return smaller
}

func (s *shrinker) network() (smaller bool) {
	n := s.best.Network
	if n.Loss+n.Double+n.Reorder+n.Corrupt > 0 {
		smaller = s.try(func(sc *Scenario) { sc.Network = Network{Latency: n.Latency, Jitter: n.Jitter} })
	}
	return smaller
}
