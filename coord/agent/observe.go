package agent

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/metrics"
	"github.com/headrace/headrace/metrics/page"
)

// Observing says where an agent shows itself.
type Observing struct {
	Addr string // host:port; off loopback only with a Key
	// Key is what a request must bring, but for the probes: a kubelet has none. It is not
	// the job's, for it goes in the clear.
	Key string
	// Stats are those of this node's loaders, nil where nobody has any.
	Stats func() []agentapi.RankStats
}

// Observe serves metrics, probes, the JSON view and the page of the job, until the server
// is closed.
func (a *Agent) Observe(o Observing) (*metrics.Server, error) {
	server, err := metrics.New(metrics.Options{Addr: o.Addr, Key: o.Key, OpenProbes: true, Health: a.Alive, Ready: a.Ready})
	if err != nil {
		return nil, err
	}
	if err := a.Show(server, o.Stats); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// Show puts the agent's page and metrics on a server that there is. Stats are those of this
// node's loaders, which it tells too.
func (a *Agent) Show(server *metrics.Server, stats func() []agentapi.RankStats) error {
	ctx, cancel := context.WithTimeout(context.Background(), snapshotWait)
	defer cancel()
	if err := a.do(ctx, func() error { a.stats = stats; return nil }); err != nil {
		return err
	}
	page.Mount(server, a.Snapshot)
	return errors.Join(server.Register(a.settle), server.Register(collector{a.Snapshot}))
}

// newSettle counts how long changes take, from a tenth of a second to a minute.
func newSettle() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "headrace_agent_settle_seconds", Help: "from gossip's first word of a change of members to the view that has it",
		Buckets: []float64{.1, .25, .5, 1, 2, 4, 6, 8, 12, 18, 30, 60},
	})
}

// collector tells a Snapshot to Prometheus: one is taken for each scrape, so that its
// numbers fit each other. What is not known is not told.
type collector struct{ snapshot func() page.Snapshot }

// Describe tells nothing: names come with the values.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect is for Prometheus.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.snapshot()
	for _, m := range numbers(&s) {
		m.table().Collect(out)
	}
	for _, rows := range labelled(&s) {
		rows.Collect(out)
	}
}

// metric is one number.
type metric struct {
	name, help string
	value      float64
}

func (m metric) table() *metrics.Table {
	return metrics.NewTable(nil, []metrics.Column{columnOf(m.name, m.help)}, func() []metrics.Row {
		return []metrics.Row{{Values: []float64{m.value}}}
	})
}

// columnOf is a counter if its name says so.
func columnOf(name, help string) metrics.Column {
	return metrics.Column{Name: name, Help: help, Counter: strings.HasSuffix(name, "_total")}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// numbers are the metrics without labels. NaN is not told.
func numbers(s *page.Snapshot) []metric {
	in := func(v float64) float64 { // of a job that is known
		if s.View.Since == nil {
			return math.NaN()
		}
		return v
	}
	step := func(v int64) float64 {
		if s.Job.Mode != "lockstep" {
			return math.NaN()
		}
		return in(float64(v))
	}
	c, p := &s.Counters, &s.Progress
	lost, lag := 0, math.NaN()
	for i := range s.Nodes {
		lost += int(flag(s.Nodes[i].Lost))
		if n := s.Nodes[i].Lag; n != nil && !(lag >= float64(*n)) {
			lag = float64(*n)
		}
	}
	return []metric{
		{"headrace_job_view", "number of the newest view", in(float64(s.View.Number))},
		{"headrace_job_nodes", "members of the view", in(float64(len(s.Nodes)))},
		{"headrace_job_ranks", "ranks of the view", in(float64(s.View.World))},
		{"headrace_job_ranks_expected", "ranks that must be there before anything is delivered", float64(s.Job.Expect)},
		{"headrace_job_voters", "members that decide", in(float64(len(s.View.Voters)))},
		{"headrace_job_epoch", "the epoch that is open", in(float64(p.Epoch))},
		{"headrace_job_step", "lockstep: steps that all ranks have done, as the log has it", step(p.Step)},
		{"headrace_job_lease_steps", "lockstep: steps between that and the end of the lease; at 0 the ranks wait", step(max(0, p.Horizon-p.Step))},
		{"headrace_job_lag_steps", "lockstep: how far the last node is behind the first, known by the leader", lag},
		{"headrace_job_redos", "how often the job was set to a step", in(float64(p.Redos))},
		{"headrace_job_positions", "positions of an epoch", float64(s.Coverage.Of)},
		{"headrace_job_covered_positions", "positions of the open epoch that are done", in(float64(s.Coverage.Done))},
		{"headrace_job_samples_per_second", "samples that the job delivers, over the last seconds", in(s.Rates.Samples)},
		{"headrace_job_running", "1: something is delivered, or may be", flag(s.Status == page.Running)},
		{"headrace_job_halted", "1: a rank is lost, and the trainer has not said where to go on", flag(p.Halted)},
		{"headrace_job_over", "1: all epochs are done", flag(p.Over)},
		{"headrace_agent_member", "1: the agent is in the view", flag(s.Agent.Member)},
		{"headrace_agent_voter", "1: it decides", flag(s.Agent.Voter)},
		{"headrace_agent_leader", "1: it leads", flag(s.Agent.Leader)},
		{"headrace_agent_views_installed_total", "views that it has come to know", float64(c.Views)},
		{"headrace_agent_evictions_total", "members that were not in the next view", float64(c.Evicted)},
		{"headrace_agent_admissions_total", "members that were new in the next view", float64(c.Admitted)},
		{"headrace_agent_elections_won_total", "times that it came to lead", float64(c.Elections)},
		{"headrace_agent_rejoins_total", "times that it was evicted and began again", float64(c.Rejoins)},
		{"headrace_agent_messages_sent_total", "messages to other agents", float64(c.Sent)},
		{"headrace_agent_messages_received_total", "messages of other agents", float64(c.Received)},
		{"headrace_agent_log_entries", "entries of the log in memory, of a voter", float64(c.LogEntries)},
		{"headrace_agent_log_voters", "agents by whose majority the log goes on, as a voter has it; 0 while they change", float64(c.LogVoters)},
		{"headrace_agent_followers", "agents that it tells what is new, as a voter", float64(c.Followers)},
		{"headrace_agent_start_time_seconds", "when it began, since 1970", float64(s.Agent.Began.UnixMilli()) / float64(time.Second/time.Millisecond)},
		{"headrace_gossip_members", "members that gossip holds for alive", float64(s.Gossip.Members)},
		{"headrace_gossip_lost_members", "members of the view that it holds for dead", float64(lost)},
		{"headrace_gossip_health_score", "memberlist's own: 0 is well, higher is a node that hears late", float64(s.Gossip.Health)},
	}
}

// labelled are the metrics with labels.
func labelled(s *page.Snapshot) []prometheus.Collector {
	rows := func(name, help string, labels []string, list []metrics.Row) prometheus.Collector {
		return metrics.NewTable(labels, []metrics.Column{columnOf(name, help)}, func() []metrics.Row { return list })
	}
	one := []float64{1}
	var dropped []metrics.Row
	for why, n := range s.Counters.Dropped {
		dropped = append(dropped, metrics.Row{Labels: []string{why}, Values: []float64{float64(n)}})
	}
	out := []prometheus.Collector{
		rows("headrace_agent_info", "always 1", []string{"job", "mode", "name", "id", "version"}, []metrics.Row{{Labels: []string{s.Job.Name, s.Job.Mode, s.Agent.Name, s.Agent.ID, s.Agent.Version}, Values: one}}),
		rows("headrace_agent_messages_dropped_total", "messages and packets that were dropped", []string{"reason"}, dropped),
		rows("headrace_agent_commit_parts_total", "parts of commits that a voter has applied", []string{"verdict"}, []metrics.Row{
			{Labels: []string{"effective"}, Values: []float64{float64(s.Counters.Effective)}}, {Labels: []string{"void"}, Values: []float64{float64(s.Counters.Void)}},
		}),
		loaders(s),
	}
	if e := s.Coverage.Last; e != nil {
		out = append(out, rows("headrace_job_epoch_closed_info", "always 1: the last epoch that was closed, and the digest of what it delivered", []string{"epoch", "positions", "digest"},
			[]metrics.Row{{Labels: []string{strconv.FormatInt(e.Epoch, 10), strconv.FormatInt(e.Count, 10), e.Digest}, Values: one}}))
	}
	return out
}

// loaders are the stats of this node's loaders, by rank of the view.
func loaders(s *page.Snapshot) *metrics.Named {
	return metrics.NewNamed("headrace_loader_", "of the rank's loader", []string{"rank", "local_rank"}, func() []metrics.NamedRow {
		var rows []metrics.NamedRow
		for i := range s.Ranks {
			if r := &s.Ranks[i]; r.Stats != nil {
				rows = append(rows, metrics.NamedRow{Labels: []string{strconv.Itoa(r.Rank), strconv.Itoa(r.Local)}, Values: r.Stats})
			}
		}
		return rows
	})
}
