package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/metrics/page"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

const (
	// staleStats is how old a loader's stats may be: it sends them once a second while it
	// lives.
	staleStats = 15 * time.Second
	// snapshotWait is how long the agent's goroutine may take to answer: by itself it waits
	// for short locks alone.
	snapshotWait = 2 * time.Second
)

// load is the newest stats of one of this node's loaders.
type load struct {
	agentapi.RankStats
	pace  pace
	total float64
}

// Snapshot is what the agent knows of the job, for people. One that has ended says so.
func (a *Agent) Snapshot() page.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), snapshotWait)
	defer cancel()
	made := make(chan page.Snapshot, 1)
	err := a.do(ctx, func() error {
		made <- a.picture()
		return nil
	})
	if err != nil {
		return page.Snapshot{Time: time.Now(), Agent: a.teller(), Job: page.Job{Name: a.config.Job}, Status: page.Ended, Reason: err.Error()}
	}
	return <-made
}

// Alive says whether the agent's goroutine answers.
func (a *Agent) Alive() error {
	ctx, cancel := context.WithTimeout(context.Background(), snapshotWait)
	defer cancel()
	if err := a.do(ctx, func() error { return nil }); err != nil {
		return nd.Errorf(nd.ErrClosed, "the agent does not answer: %w", err)
	}
	return nil
}

// Ready says whether the agent is in a job whose voters can decide, and why not. A job
// that waits for ranks, or has halted, is well in that sense. An agent takes ranks before it
// is ready: it is in no job until one has said what the job is.
func (a *Agent) Ready() error {
	a.mu.Lock()
	s, id, closed := a.mu.state, a.mu.self, a.mu.closed
	waiting, deaf, refused := a.mu.waiting, a.mu.deaf, a.mu.refused
	a.mu.Unlock()
	switch {
	case closed:
		return nd.Errorf(nd.ErrClosed, "agent: %w", errEnded)
	case refused != nil:
		return refused
	case s.Ending != "":
		return nd.Errorf(nd.ErrClosed, "it has no part in the job: %s", s.Ending)
	case id == (coord.ID{}):
		return nd.Errorf(nd.ErrClosed, "%s", noRank(waiting))
	case s.View == nil:
		return nd.Errorf(nd.ErrClosed, "%s", cmp.Or(waiting, "there is no view yet"))
	case s.View.Index(id) < 0:
		return nd.Errorf(nd.ErrClosed, "it is not in view %d", s.View.Number)
	case deaf:
		return nd.Errorf(nd.ErrClosed, "%s", waiting)
	}
	return nil
}

// noRank is why an agent without a rank is in no job, and what else is in the way.
func noRank(waiting string) string {
	if waiting == "" {
		return "no rank has attached: the job is not known yet"
	}
	return "no rank has attached, and " + waiting
}

// --- what follows is done by the agent's goroutine

// sample looks at how far the job and this node's loaders are.
func (a *Agent) sample(now time.Duration, s *group.State) {
	a.readLoads(now)
	if s.View == nil {
		a.watch.sampled = now
		return
	}
	a.watch.sample(now, delivered(a.job(), s, a.step(s)))
}

// readLoads takes the newest stats of this node's loaders.
func (a *Agent) readLoads(now time.Duration) {
	if a.stats == nil {
		return
	}
	for _, r := range a.stats() {
		l := a.loads[r.LocalRank]
		if l == nil || l.PID != r.PID {
			l = &load{pace: pace{began: now}, total: r.Stats["samples_total"]}
			a.loads[r.LocalRank] = l
		}
		if !r.Time.Before(l.Time) {
			total := r.Stats["samples_total"]
			l.pace.count += max(0, total-l.total)
			l.RankStats, l.total = r, total
		}
	}
	for local, l := range a.loads {
		if time.Since(l.Time) > staleStats {
			delete(a.loads, local)
			continue
		}
		l.pace.sample(max(sampleEvery, now-a.watch.sampled))
	}
}

// step is the newest that is known to be done, lockstep: this node's own ranks know more of
// it than the log.
func (a *Agent) step(s *group.State) int64 {
	if step, redos := a.self.node.Reached(); redos == s.Redos {
		return max(step, s.Step)
	}
	return s.Step
}

// job is what is known of the job's constants.
func (a *Agent) job() coord.Job {
	if a.self.node != nil {
		if m := a.self.node.Machine(); m != nil && m.Formed() {
			return m.Job()
		}
	}
	j := coord.Job{Name: a.config.Job}
	if f := a.former; f != nil {
		j.Plan, j.N, j.Steps, j.Epochs = f.Plan, f.N, f.Steps, f.Epochs
		j.Mode, _ = coord.ParseMode(f.Mode) // it was read before
	}
	return j
}

// delivered is how many samples a job has delivered since its first epoch.
func delivered(j coord.Job, s *group.State, step int64) float64 {
	if j.Mode == coord.Async {
		return float64(s.Epoch)*float64(j.N) + float64(s.Committed)
	}
	if j.Steps == 0 {
		return 0
	}
	return float64(step/j.Steps)*float64(j.N) + float64(positions(j, step%j.Steps))
}

// positions is how many of an epoch are in its first steps, lockstep.
func positions(j coord.Job, steps int64) int64 {
	if j.Steps <= 0 || steps <= 0 {
		return 0
	}
	global := (j.N + j.Steps - 1) / j.Steps
	if steps >= j.Steps || steps > j.N/max(1, global) {
		return j.N
	}
	return steps * global
}

func (a *Agent) teller() page.Agent {
	return page.Agent{Name: a.config.Name, Address: a.Address(), Version: a.config.Release, Began: a.began, Witness: a.config.Witness}
}

// picture is the Snapshot.
func (a *Agent) picture() page.Snapshot {
	p := page.Snapshot{Time: time.Now(), Agent: a.teller(), Job: page.Job{Name: a.config.Job, Expect: a.config.Expect}, Counters: a.counters()}
	p.Rates.History = slices.Clone(a.watch.history)
	for _, e := range a.watch.events {
		p.Events = append(p.Events, page.Event(e))
	}
	j := a.job()
	p.Job = page.Job{Name: a.config.Job, Plan: coord.PlanHash(j.Plan), N: j.N, Steps: j.Steps, Epochs: j.Epochs, Expect: max(j.Expect, a.config.Expect)}
	if j.Plan != "" {
		p.Job.Mode = j.Mode.String()
	}
	n := a.self.node
	if n == nil {
		p.Status, p.Reason = page.Joining, noRank(a.waiting())
		if a.stuck != nil {
			p.Reason = "it cannot begin again: " + a.stuck.Error()
		}
		if a.refused != nil {
			p.Status, p.Reason = page.Ended, a.refused.Error()
		}
		return p
	}
	s := n.State()
	p.Status, p.Reason = status(&s, a.waiting(), n.Deaf())
	p.Agent.ID, p.Agent.Voter, p.Agent.Leader = a.self.id.String(), s.Votes, s.Leads
	if g := a.self.gossip; g != nil {
		p.Gossip = page.Gossip{Members: g.list.NumMembers(), Health: g.list.GetHealthScore()}
	}
	held := n.Held()
	p.Counters.LogEntries, p.Counters.LogVoters, p.Counters.Followers = held.Entries, a.voters(&s), held.Followers
	if s.View == nil {
		return p
	}
	p.Agent.Member = s.View.Index(a.self.id) >= 0
	p.Progress = page.Progress{Epoch: s.Epoch, Step: s.Step, Horizon: s.Horizon, Redos: s.Redos, Open: s.Open, Halted: s.Halted, Over: s.Over}
	p.View = viewed(&s, a.watch.since)
	p.Nodes = a.nodes(&s)
	p.Coverage = a.coverage(j, &s)
	p.Rates.Samples, _ = a.watch.job.rate(a.now())
	p.Ranks = a.ranks(j, &s, p.Rates.Samples)
	return p
}

// status is how the job is, and why nothing is delivered if nothing is.
func status(s *group.State, waiting string, deaf bool) (page.Status, string) {
	switch {
	case s.Ending != "":
		return page.Ended, s.Ending
	case s.View == nil:
		return page.Joining, cmp.Or(waiting, "there is no view yet")
	case s.Over:
		return page.Over, ""
	case deaf:
		return page.Cut, waiting
	case !s.Open:
		return page.Waiting, waiting
	case s.Halted:
		return page.Halted, waiting
	}
	return page.Running, ""
}

func (a *Agent) counters() page.Counters {
	w := &a.watch
	return page.Counters{
		Views: w.views, Evicted: w.evicted, Admitted: w.admitted, Elections: w.elections, Rejoins: w.rejoins,
		Sent: w.sent, Received: w.received, Dropped: a.drops.counts(), LastSettle: w.settle.Seconds(), Effective: w.effective, Void: w.void,
	}
}

func viewed(s *group.State, since time.Time) page.View {
	v := page.View{Number: s.View.Number, Since: &since, World: s.View.World(), Index: s.Known.Index, Cut: s.View.Cut}
	for _, id := range s.View.Voters {
		v.Voters = append(v.Voters, id.String())
	}
	if s.Leader != (coord.ID{}) {
		v.Leader = s.Leader.String()
	}
	return v
}

func (a *Agent) nodes(s *group.State) []page.Node {
	furthest, list, first := int64(0), make([]page.Node, len(s.View.Members)), 0
	done := make([]*int64, len(list))
	for i := range list {
		m := &s.View.Members[i]
		list[i] = page.Node{
			ID: m.ID.String(), Name: m.Name, Rack: m.Rack, Address: m.Address, Ranks: m.Ranks, First: first,
			Voter: slices.Contains(s.View.Voters, m.ID), Leader: m.ID == s.Leader,
			Lost: m.ID != a.self.id && a.self.node.Liveness(m.ID) == group.Dead,
		}
		first += len(m.Ranks)
		r, age, ok := a.self.node.Report(m.ID)
		if !ok {
			continue
		}
		silent := age.Seconds()
		list[i].Silent = &silent
		if len(m.Ranks) > 0 && r.Redos == s.Redos && a.job().Mode == coord.Lockstep {
			done[i], furthest = &r.Done, max(furthest, r.Done)
		}
	}
	for i, d := range done {
		if d != nil {
			lag := furthest - *d
			list[i].Lag = &lag
		}
	}
	return list
}

func (a *Agent) coverage(j coord.Job, s *group.State) page.Coverage {
	c := page.Coverage{Of: j.N}
	if e := s.Closed; e != nil {
		c.Last = &page.Closed{Epoch: e.Epoch, Count: e.Count}
		if j.Mode == coord.Async {
			c.Last.Digest = sampler.Digest{Lanes: e.Digest}.String()
		}
	}
	if s.Over {
		c.Done, c.Spans = j.N, []page.Span{{0, j.N}}
		return c
	}
	if j.Mode == coord.Lockstep {
		begin := s.Epoch * j.Steps
		c.Done, c.Leased = positions(j, s.Step-begin), positions(j, s.Horizon-begin)
		c.Spans = []page.Span{{0, c.Done}}
		return c
	}
	c.Done = s.Committed
	if m := a.self.node.Machine(); m != nil && m.Formed() {
		p := m.Progress()
		c.Digest = sampler.Digest{Lanes: p.Digest}.String()
		c.Spans = spans(p.Done)
	}
	return c
}

// spans are never nil: it is known which they are.
func spans(list []nd.Span) []page.Span {
	out := make([]page.Span, len(list))
	for i, x := range list {
		out[i] = page.Span{x.Start, x.Stop}
	}
	return out
}

// ranks are those of the view, each with what is known of it here.
func (a *Agent) ranks(j coord.Job, s *group.State, job float64) []page.Rank {
	world := s.View.World()
	list := make([]page.Rank, 0, world)
	m := a.self.node.Machine()
	if m != nil && (!m.Formed() || m.Lanes() != world) {
		m = nil
	}
	even := func() *float64 { // ranks that keep step share what the job does
		v := job / float64(world)
		return &v
	}
	for i := range s.View.Members {
		member := &s.View.Members[i]
		for k, local := range member.Ranks {
			r := page.Rank{Rank: len(list), Node: i, Local: local}
			switch {
			case m != nil:
				left := m.Left(r.Rank)
				r.Left, r.Lane = &left, spans(m.Lane(r.Rank))
				r.Rate = a.committed(place{member.ID, local})
			case member.ID == a.self.id && k < len(s.Lanes):
				r.Lane = spans(s.Lanes[k])
				left := int64(0)
				for _, x := range s.Lanes[k] {
					left += x.Stop - x.Start
				}
				r.Left = &left
			}
			if member.ID == a.self.id {
				a.loaded(&r)
			}
			if r.Rate == nil && j.Mode == coord.Lockstep && j.Steps > 0 {
				r.Rate = even()
			}
			list = append(list, r)
		}
	}
	return list
}

// committed is the pace of a rank by its commits, which a voter sees.
func (a *Agent) committed(p place) *float64 {
	if v, ok := a.watch.rank(a.now(), p).rate(a.now()); ok {
		return &v
	}
	return nil
}

// loaded adds what the rank's own loader tells.
func (a *Agent) loaded(r *page.Rank) {
	l := a.loads[r.Local]
	if l == nil {
		return
	}
	r.Stats, r.PID = l.Stats, l.PID
	if v, ok := l.pace.rate(a.now()); ok && r.Rate == nil {
		r.Rate = &v
	}
}
