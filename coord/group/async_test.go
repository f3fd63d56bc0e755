package group

import (
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// workers are the ranks of an async job on one node: each takes positions, works on them
// for a while and finishes them.
type workers struct {
	m       *machine
	cursors []*coord.Cursor
	busy    []time.Duration // until when
	holds   []nd.Span
	took    int // events
}

func newWorkers(m *machine, job *coord.Job, ranks int) *workers {
	w := &workers{m: m, busy: make([]time.Duration, ranks), holds: make([]nd.Span, ranks)}
	for k := range ranks {
		w.cursors = append(w.cursors, coord.NewCursor(job, k))
	}
	return w
}

// step lets the ranks work. It returns the end of an epoch, if there was one.
func (w *workers) step(c *cluster) (closed *coord.Closed) {
	if w.m.dead {
		return nil
	}
	s := w.m.State()
	for ; w.took < len(w.m.events); w.took++ {
		e := w.m.events[w.took]
		if e.Kind == Decided {
			w.cursors[e.Part.Local].Decide(e.Part.Span, e.Verdict)
		}
		if x, ok := e.Effect.(*coord.Closed); ok {
			closed = x
		}
	}
	if s.View == nil || s.View.Index(w.m.cfg.Self.ID) < 0 {
		return closed
	}
	for k, cursor := range w.cursors {
		if k < len(s.Lanes) {
			cursor.Update(s.Epoch, s.Lanes[k])
		}
		if w.busy[k] > c.now {
			continue
		}
		if x := w.holds[k]; x.Stop > 0 {
			cursor.Finish(x, digestOf(x))
			w.m.Commit(c.now, uint64(k+1), cursor.Parts())
			w.holds[k] = nd.Span{}
		}
		if x, wait := cursor.Take(1 + int64(c.r.IntN(8))); wait == coord.Go {
			w.holds[k] = x
			w.busy[k] = c.now + time.Duration(c.r.IntN(200*(w.m.place+1)))*time.Millisecond
		}
	}
	return closed
}

// digestOf is the sum over positions, as digests are.
func digestOf(x nd.Span) (d [2]uint64) {
	for p := x.Start; p < x.Stop; p++ {
		d[0] += uint64(p) * 0x9e3779b97f4a7c15
		d[1] += uint64(p) ^ 0x55
	}
	return d
}

// An async job over slow and fast nodes, some of which die and others come, ends with
// each position committed once, and the digest of all of them.
func TestAsyncExactlyOnce(t *testing.T) {
	for seed := range uint64(10) {
		job := coord.Job{Name: "j", Plan: "p", Mode: coord.Async, N: 4000, Epochs: 1, Voters: 7, Ahead: 64, Reserve: 64}
		c := newCluster(t, job, 6, 2, seed)
		c.loss = 0.02
		var all []*workers
		for _, m := range c.nodes {
			all = append(all, newWorkers(m, &job, 2))
		}
		var closed *coord.Closed
		next := 5 * time.Second
		c.until("the epoch", 10*time.Minute, func() bool {
			for _, w := range all {
				if e := w.step(c); e != nil {
					closed = e
				}
			}
			if c.now > next && len(c.nodes) < 12 {
				next = c.now + 8*time.Second
				if victim := c.r.IntN(len(c.nodes)); victim > 1 && !c.nodes[victim].dead {
					c.kill(victim)
				}
				all = append(all, newWorkers(c.add(len(c.nodes), 2, nil), &job, 2))
			}
			return closed != nil
		})
		if want := digestOf(nd.Span{Stop: job.N}); closed.Count != job.N || closed.Digest != want {
			t.Errorf("seed %d: %d positions, digest %x of %x", seed, closed.Count, closed.Digest, want)
		}
		if seed < 3 {
			t.Logf("seed %d: %v, view %d", seed, c.now, c.nodes[0].State().View.Number)
		}
	}
}
