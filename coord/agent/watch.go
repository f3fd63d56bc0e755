package agent

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/internal/plural"
)

const (
	// sampleEvery is the time between two looks at how far the job is.
	sampleEvery = time.Second
	// smooth is over how long rates are averaged: commits and reports come in lumps.
	smooth = 5 * time.Second
	// leastRate is the slowest that is told, in samples a second.
	leastRate = 1e-3
	// keptSamples is two minutes of history, for a picture.
	keptSamples = 120
	// keptEvents is how many events are remembered.
	keptEvents = 64
	// signHolds is how long a sign of a change waits for its view.
	signHolds = 5 * time.Minute
)

// watch is what an agent counts and remembers of itself and of the job. It belongs to the
// agent's goroutine.
type watch struct {
	sent, received           int64
	views, evicted, admitted int64
	elections, rejoins       int64
	effective, void          int64
	view                     *coord.View // that was seen last
	since                    time.Time   // then
	signs                    map[coord.ID]sign
	settle                   time.Duration // of the last change
	settled                  func(seconds float64)
	events                   []Event
	sampled                  time.Duration
	total                    float64 // samples of the job, then
	job                      pace
	ranks                    map[place]*pace
	history                  []float64
}

// sign is the first word of a change: a node that is there, or is not.
type sign struct {
	at    time.Duration
	alive bool
}

// place is a rank, whatever its number.
type place struct {
	id    coord.ID
	local int
}

// pace is how fast something is, averaged.
type pace struct {
	began time.Duration
	count float64 // since the last sample
	mean  float64 // of samples a second, as if it had begun at 0
}

// young is for how long a rate means nothing.
const young = 2 * sampleEvery

func (p *pace) sample(dt time.Duration) {
	p.mean += (p.count/dt.Seconds() - p.mean) * (1 - math.Exp(-dt.Seconds()/smooth.Seconds()))
	p.count = 0
}

// rate is samples a second; false: it is too early to say.
func (p *pace) rate(now time.Duration) (float64, bool) {
	age := now - p.began
	if age < young {
		return 0, false
	}
	rate := p.mean / (1 - math.Exp(-age.Seconds()/smooth.Seconds()))
	if rate < leastRate {
		rate = 0 // what is left of a mean that fades for ever
	}
	return rate, true
}

func newWatch(settled func(seconds float64)) watch {
	return watch{signs: map[coord.ID]sign{}, ranks: map[place]*pace{}, settled: settled}
}

// sees notes what gossip says, if the view does not have it yet.
func (w *watch) sees(now time.Duration, s seen) {
	alive := s.state == group.Alive
	if (w.view != nil && w.view.Index(s.id) >= 0) == alive {
		delete(w.signs, s.id) // as it was
		return
	}
	if len(w.signs) < rememberLost {
		w.signs[s.id] = sign{now, alive}
	}
}

// installs notes a new view.
func (w *watch) installs(now time.Duration, v *coord.View) {
	w.views++
	w.since = time.Now()
	if before := w.view; before != nil {
		w.evicted += missing(before, v)
		w.admitted += missing(v, before)
	}
	w.view = v
	first := now
	for id, s := range w.signs {
		in := v.Index(id) >= 0
		if in == s.alive {
			first = min(first, s.at)
		}
		if in == s.alive || now-s.at > signHolds {
			delete(w.signs, id)
		}
	}
	if first < now {
		w.settle = now - first
		w.settled(w.settle.Seconds())
	}
	for p := range w.ranks {
		if v.Rank(p.id, p.local) < 0 {
			delete(w.ranks, p)
		}
	}
}

// mostNames is how many nodes are named in a line.
const mostNames = 3

// names are those of members that are gone, for a line about it.
func (w *watch) names(gone []coord.ID) string {
	if w.view == nil || len(gone) == 0 {
		return ""
	}
	var list []string
	for _, id := range gone {
		if i := w.view.Index(id); i >= 0 && len(list) < mostNames {
			list = append(list, w.view.Members[i].Name)
		}
	}
	if more := len(gone) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ") + " out: "
}

// stalled says whose lane another rank has now, since it stood still.
func (w *watch) stalled(r *coord.Rebalance, x *coord.Rebalanced) string {
	where := ""
	if w.view != nil && w.view.Number == r.View { // else its ranks have other numbers
		if i := w.view.Index(w.view.Owner(x.From)); i >= 0 {
			where = " on " + w.view.Members[i].Name
		}
	}
	return fmt.Sprintf("rank %d%s commits nothing: rank %d, which has nothing left, gets its last %s", x.From, where, x.To, plural.Of(x.Moved, "position"))
}

// missing counts the members of a that b has not.
func missing(a, b *coord.View) (n int64) {
	for i := range a.Members {
		if b.Index(a.Members[i].ID) < 0 {
			n++
		}
	}
	return n
}

// decides notes what became of a commit, as a voter.
func (w *watch) decides(now time.Duration, o *coord.Outcome) {
	if o.Again {
		return
	}
	for i, v := range o.Verdicts {
		if v != coord.Effective {
			w.void++
			continue
		}
		w.effective++
		p := &o.Parts[i]
		w.rank(now, place{o.Author, p.Local}).count += float64(p.Span.Stop - p.Span.Start)
	}
}

// rank is the pace of a rank of the view. Those of others are dropped with the next view.
func (w *watch) rank(now time.Duration, p place) *pace {
	k := w.ranks[p]
	if k == nil {
		k = &pace{began: now}
		w.ranks[p] = k
	}
	return k
}

// remembers keeps an event.
func (w *watch) remembers(e Event) {
	if len(w.events) >= keptEvents {
		w.events = slices.Delete(w.events, 0, len(w.events)-keptEvents+1)
	}
	w.events = append(w.events, e)
}

// due reports whether it is time for a sample.
func (w *watch) due(now time.Duration) bool { return now-w.sampled >= sampleEvery }

// sample notes how many samples the job has delivered.
func (w *watch) sample(now time.Duration, total float64) {
	dt := now - w.sampled
	if w.job.began == 0 { // what was done before is nobody's pace
		w.job.began, w.total = now, total
	}
	w.job.count = max(0, total-w.total) // a redo goes back
	w.total, w.sampled = total, now
	w.job.sample(dt)
	for _, p := range w.ranks {
		p.sample(dt)
	}
	rate, _ := w.job.rate(now)
	if len(w.history) >= keptSamples {
		w.history = slices.Delete(w.history, 0, len(w.history)-keptSamples+1)
	}
	w.history = append(w.history, rate)
}
