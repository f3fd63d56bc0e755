package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sweep runs the scenarios of many seeds. Each is one thread of its own.
type Sweep struct {
	From, To uint64 // To is not among them; at most MostSeeds
	Options  Options
	Jobs     int // threads
	// Done is called after each run, by any thread, one at a time.
	Done func(r *Result)
}

// MostSeeds bounds a sweep: what each came to is kept until the end.
const MostSeeds = 10_000_000

// Run runs them, until all are done or the context ends. The summary is that of what was run, and does
// not depend on the number of threads.
func (s *Sweep) Run(ctx context.Context) *Summary {
	results := make([]*Result, s.To-s.From)
	var next atomic.Uint64
	var one sync.Mutex
	var threads sync.WaitGroup
	for range max(1, s.Jobs) {
		threads.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= uint64(len(results)) {
					return
				}
				r := Run(Draw(s.From+i, &s.Options), Watch{Done: ctx.Done()})
				if r == nil {
					return
				}
				one.Lock()
				results[i] = r
				if s.Done != nil {
					s.Done(r)
				}
				one.Unlock()
			}
		})
	}
	threads.Wait()
	return Summarize(slices.DeleteFunc(results, func(r *Result) bool { return r == nil }))
}

// Summary is what many runs came to. Times are in seconds.
type Summary struct {
	Seeds      int             `json:"seeds"`
	Violations []Failure       `json:"violations"`
	Views      ViewSummary     `json:"views"`
	Recovery   TimeSummary     `json:"recovery"`
	Coverage   CoverageSummary `json:"coverage"`
	Messages   MessageSummary  `json:"messages"`
	Faults     int             `json:"faults"`
	Elections  int             `json:"elections"`
	Virtual    float64         `json:"virtual_seconds"`
	Digest     string          `json:"digest"` // of all histories: equal seeds of equal programs have the same
}

// Failure is a seed that broke an invariant.
type Failure struct {
	Seed      uint64  `json:"seed"`
	Invariant string  `json:"invariant"`
	Time      float64 `json:"time"`
	Node      int     `json:"node"`
	Seen      string  `json:"seen"`
	File      string  `json:"file,omitempty"` // where the shrunk scenario was written
}

// ViewSummary counts views.
type ViewSummary struct {
	Installed int `json:"installed"`
	Most      int `json:"most"` // in one run
}

// TimeSummary is the distribution of times.
type TimeSummary struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// CoverageSummary is what became of the jobs.
type CoverageSummary struct {
	Over    int   `json:"over"`    // jobs that ended with all epochs complete
	Stopped int   `json:"stopped"` // jobs that lost a majority of their voters, and stopped
	Open    int   `json:"open"`    // jobs that went on until the run ended
	Epochs  int64 `json:"epochs"`  // that were closed, each with all its positions and the plan's digest
	Served  int64 `json:"served"`  // positions or steps that were given to ranks, again too
}

// MessageSummary counts messages.
type MessageSummary struct {
	Sent      int   `json:"sent"`
	Bytes     int64 `json:"bytes"`
	Caused    int   `json:"caused"`     // of those sent: not what the clock alone says
	PerChange int   `json:"per_change"` // caused between a loss and its view everywhere, in the median
	Corrupted int   `json:"corrupted"`
	Dropped   int   `json:"dropped"` // made no sense to who received them
}

// Summarize adds results up.
func Summarize(results []*Result) *Summary {
	s := &Summary{Seeds: len(results), Violations: []Failure{}}
	var times []time.Duration
	var changes []int
	var digest [2]uint64
	for _, r := range results {
		s.add(r)
		times = append(times, r.Recovery...)
		changes = append(changes, r.Change...)
		digest[0] = digest[0]*0x9e3779b97f4a7c15 + r.Digest[0]
		digest[1] = digest[1]*0xc2b2ae3d27d4eb4f + r.Digest[1]
	}
	s.Digest = fmt.Sprintf("%016x%016x", digest[0], digest[1])
	if slices.Sort(times); len(times) > 0 {
		s.Recovery = TimeSummary{len(times), at(times, 0.5).Seconds(), at(times, 0.99).Seconds(), at(times, 1).Seconds()}
	}
	if slices.Sort(changes); len(changes) > 0 {
		s.Messages.PerChange = at(changes, 0.5)
	}
	return s
}

// at is a quantile of an ordered list.
func at[T any](list []T, q float64) T { return list[int(q*float64(len(list)-1)+0.5)] }

func (s *Summary) add(r *Result) {
	if len(r.Violations) > 0 {
		v := &r.Violations[0]
		s.Violations = append(s.Violations, Failure{Seed: r.Seed, Invariant: v.Invariant, Time: v.Time.Seconds(), Node: v.Node, Seen: v.Seen})
	}
	s.Views.Installed += r.Views
	s.Views.Most = max(s.Views.Most, r.Views)
	switch {
	case r.Over:
		s.Coverage.Over++
	case r.Stopped:
		s.Coverage.Stopped++
	default:
		s.Coverage.Open++
	}
	s.Coverage.Epochs += r.Epochs
	s.Coverage.Served += r.Delivered
	s.Messages.Sent += r.Messages
	s.Messages.Bytes += r.Bytes
	s.Messages.Caused += r.Caused
	s.Messages.Corrupted += r.Corrupted
	s.Messages.Dropped += r.Dropped
	s.Faults += r.Faults
	s.Elections += r.Elections
	s.Virtual += r.Time.Seconds()
}
