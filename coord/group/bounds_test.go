package group

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// asyncLeader leads a job of its own with some ranks.
func asyncLeader(t *testing.T, ranks int, each int64) *Node {
	t.Helper()
	cfg := Default()
	cfg.Job = coord.Job{Name: "j", Plan: "p", Mode: coord.Async, N: int64(ranks) * each, Epochs: 1, Voters: 7, Ahead: 16, Reserve: 16}
	self := coord.Member{ID: identity(1), Name: "0", Address: address(0)}
	for local := range ranks {
		self.Ranks = append(self.Ranks, local)
	}
	cfg.Self = coord.Admission{Member: self, Version: coord.Version, Job: cfg.Job.Name, Plan: cfg.Job.Plan}
	cfg.Form = []coord.Member{self}
	n, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.pass(20)
	return n
}

// A log of few large entries is compacted too, by their bytes, and keeps few of them.
func TestLogIsBoundedByBytes(t *testing.T) {
	n := asyncLeader(t, 1, 100)
	large := &coord.Change{View: 99} // of another view: it changes nothing, and is in the log
	for i := range 1000 {
		large.Admit = append(large.Admit, coord.Admission{Member: coord.Member{ID: identity(i + 2), Name: strings.Repeat("n", coord.MaxText), Address: address(i)}})
	}
	size, most, compacted := len(coord.AppendEntry(nil, large)), 0, 0
	entries := 3 * compactBytes / size
	if entries >= compactEvery+keepEntries {
		t.Fatalf("%d entries of %d bytes: they are compacted by their number", entries, size)
	}
	for range entries {
		before := n.Held()
		if !n.propose(large) {
			t.Fatal("not proposed")
		}
		n.ready()
		h := n.Held()
		most = max(most, h.Log)
		if h.Entries < before.Entries {
			compacted++
			if h.Log > keepBytes || h.Log < keepBytes/2 {
				t.Errorf("%d bytes are kept", h.Log)
			}
		}
	}
	if compacted < 2 || most >= compactBytes {
		t.Errorf("compacted %d times, at most %d bytes", compacted, most)
	}
	if n.pass(30); !n.State().Leads {
		t.Error("it leads no more")
	}
}

// Many ranks that are idle get tails by and by.
func TestMovesAreBounded(t *testing.T) {
	const idle = 100
	n := asyncLeader(t, 2*idle, 1000)
	m := n.Machine()
	c := &coord.Commit{View: m.View().Number, Author: identity(1), Seq: 1}
	for rank := range idle {
		for _, x := range m.Lane(rank) {
			c.Parts = append(c.Parts, coord.Part{Local: rank, Span: x})
		}
	}
	n.propose(c)
	n.ready()
	if m.Left(0) != 0 || m.Left(idle-1) != 0 || m.Left(idle) == 0 {
		t.Fatalf("left %d, %d, %d", m.Left(0), m.Left(idle-1), m.Left(idle))
	}
	for _, want := range []int{mostMoves, idle - mostMoves, 0} {
		n.now += again * n.cfg.Beat
		n.Events()
		n.lead.rebalance(n, m)
		n.ready()
		moves := 0
		for _, e := range n.Events() {
			if _, is := e.Effect.(*coord.Rebalanced); is {
				moves++
			}
		}
		if moves != want {
			t.Errorf("%d moves at once, want %d", moves, want)
		}
	}
}

// What a rank has that stands still goes to an idle one after a time, which is longer for the next one
// if that is in vain, and begins again with a commit. Of two idle ranks the one that has worked gets it.
func TestStalledLanesAreTaken(t *testing.T) {
	n := asyncLeader(t, 4, 10) // no lane has more than its reserve
	m, seq := n.Machine(), uint64(0)
	commit := func(rank int, stop int64) {
		t.Helper()
		x := m.Lane(rank)[0]
		if stop > 0 {
			x.Stop = stop
		}
		seq++
		n.propose(&coord.Commit{View: m.View().Number, Author: identity(1), Seq: seq, Parts: []coord.Part{{Local: rank, Span: x}}})
		n.ready()
	}
	look := func(after time.Duration) (moves []coord.Rebalance) {
		t.Helper()
		n.now += after
		n.Events()
		n.lead.rebalance(n, m)
		n.ready()
		for _, e := range n.Events() {
			if r, is := e.Entry.(*coord.Rebalance); is {
				moves = append(moves, *r)
			}
		}
		return moves
	}
	want := func(got []coord.Rebalance, from, to int) {
		t.Helper()
		if len(got) != 1 || got[0].From != from || got[0].To != to || !got[0].All {
			t.Fatalf("moves %+v, want from %d to %d", got, from, to)
		}
	}
	beat := again * n.cfg.Beat
	commit(0, 0)
	n.now += n.cfg.Beat
	commit(1, 0) // it has worked last
	commit(2, 25)
	commit(3, 0)
	if moves := look(beat); moves != nil {
		t.Fatalf("at once: %+v", moves)
	}
	n.now += n.cfg.Stall / 4
	commit(2, 28)
	if moves := look(n.cfg.Stall - beat); moves != nil {
		t.Fatalf("soon after a commit: %+v", moves)
	}
	want(look(2*beat), 2, 1)
	if moves := look(2*n.cfg.Stall - beat); moves != nil {
		t.Fatalf("before twice the time: %+v", moves)
	}
	want(look(2*beat), 1, 3)
	n.now += n.cfg.Stall
	commit(3, 29) // that took it so long
	if moves := look(2*n.cfg.Stall - beat); moves != nil {
		t.Fatalf("soon after another commit: %+v", moves)
	}
	want(look(3*beat), 3, 0) // rank 1 has stood still
}

// Ranks that all work, and take longer for each position than anyone is patient at first, lose nothing
// to each other: how long they take is known by then. One of them is slower.
func TestSlowWorkIsNotTaken(t *testing.T) {
	type piece struct {
		at   int64
		done time.Duration
	}
	for _, takes := range []time.Duration{20 * time.Second, 70 * time.Second, 300 * time.Second} {
		n := asyncLeader(t, 4, 10)
		m, seq := n.Machine(), uint64(0)
		works := map[int]piece{}
		for began := n.now; m.Committed() < 40 && n.now-began < 3*time.Hour; {
			for rank := range m.Lanes() {
				x, working := works[rank]
				lane := m.Lane(rank)
				if working && (len(lane) == 0 || lane[0].Start != x.at) {
					t.Fatalf("%v a position: position %d of rank %d was taken from it after %v", takes, x.at, rank, n.now-began)
				}
				if working && n.now >= x.done {
					seq++
					n.propose(&coord.Commit{View: m.View().Number, Author: identity(1), Seq: seq, Parts: []coord.Part{{Local: rank, Span: nd.Span{Start: x.at, Stop: x.at + 1}}}})
					n.ready()
					delete(works, rank)
					working, lane = false, m.Lane(rank)
				}
				if !working && len(lane) > 0 {
					slower := takes * time.Duration(rank/3) / 2
					works[rank] = piece{lane[0].Start, n.now + takes + slower}
				}
			}
			n.now += again * n.cfg.Beat
			n.lead.rebalance(n, m)
			n.ready()
		}
		if m.Committed() != 40 {
			t.Errorf("%v a position: %d are done", takes, m.Committed())
		}
	}
}

// Nothing but an effective commit is a sign of work: neither one that the log has had already, nor a
// new view, if the rank had its positions before.
func TestNoSignOfWork(t *testing.T) {
	const rank = 2
	v := &coord.View{Members: []coord.Member{{ID: identity(1), Ranks: []int{0, 1, rank}}}}
	v.Seal()
	l := lanes{}
	p := place{identity(1), rank}
	l.of(p, time.Second).holds = true
	outcome := &coord.Outcome{Author: identity(1), Seq: 1, Parts: []coord.Part{{Local: rank}}, Verdicts: []coord.Verdict{coord.VoidLane}}
	l.outcome(outcome, 2*time.Second)
	outcome.Verdicts[0], outcome.Again = coord.Effective, true
	l.outcome(outcome, 3*time.Second)
	l.dealt(v, 4*time.Second)
	if w := l[p]; w.since != time.Second || w.committed != 0 {
		t.Errorf("a sign of work: %+v", *w)
	}
	outcome.Again = false
	l.outcome(outcome, 5*time.Second)
	if w := l[p]; w.since != 5*time.Second || w.committed != w.since || w.longest != 4*time.Second {
		t.Errorf("after a commit: %+v", *w)
	}
	l[p].holds = false // it has nothing, and is dealt something
	l.dealt(v, 6*time.Second)
	if w := l[p]; w.since != 6*time.Second {
		t.Errorf("dealt a lane: %+v", *w)
	}
	if l.dealt(&coord.View{}, 7*time.Second); len(l) != 0 {
		t.Errorf("ranks that are gone are kept: %v", l)
	}
}

// All of why nothing is decided is said, whatever it is.
func TestWaitingSaysAll(t *testing.T) {
	n := fuzzed(t, 0)
	n.known.Open, n.known.Halted = true, true
	n.voter.since, n.now = 0, deafAfter*n.cfg.Beat
	n.voter.config.Voters = []uint64{1, 2, identity(1).Raft()}
	const want = "a majority of the 1 voter does not answer: nothing new is decided without it; and a rank was lost: the trainer must say from which step to go on"
	if got := n.Waiting(); got != want {
		t.Errorf("it says %q", got)
	}
}
