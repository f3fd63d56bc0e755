package coord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

func span(a, b int64) nd.Span { return nd.Span{Start: a, Stop: b} }

// A rank delivers its lane in order, no further than its lease, and commits what it has
// finished as far as nothing before it is open.
func TestCursor(t *testing.T) {
	j := async(1000)
	j.Ahead = 10
	c := NewCursor(&j, 3)
	c.Update(0, []nd.Span{span(0, 6), span(100, 200)})
	take := func(n int64, want nd.Span, wait Wait) {
		t.Helper()
		if got, w := c.Take(n); got != want || w != wait {
			t.Errorf("took %v %d, expected %v %d", got, w, want, wait)
		}
	}
	take(4, span(0, 4), Go)
	take(4, span(4, 6), Go) // spans are not joined: positions follow each other
	take(8, span(100, 104), Go)
	take(1, nd.Span{}, Leased)
	if !c.Finish(span(4, 6), [2]uint64{1, 1}) || c.Finish(span(4, 6), [2]uint64{}) || c.Finish(span(5, 6), [2]uint64{}) {
		t.Error("what was taken is finished, once")
	}
	if p := c.Parts(); p != nil {
		t.Errorf("parts before the first is finished: %v", p)
	}
	c.Finish(span(0, 4), [2]uint64{2, 2})
	want := []Part{{3, 0, span(0, 4), [2]uint64{2, 2}}, {3, 0, span(4, 6), [2]uint64{1, 1}}}
	if p := c.Parts(); !slices.Equal(p, want) {
		t.Errorf("parts %v", p)
	}
	if p := c.Parts(); p != nil {
		t.Errorf("the same parts again: %v", p)
	}
	c.Decide(span(0, 6), Effective) // as one commit joined them
	take(10, span(104, 110), Go)
}

// What another rank has now is void, and the rest of it is the rank's to deliver again.
func TestCursorLosesItsLane(t *testing.T) {
	j := async(1000)
	c := NewCursor(&j, 0)
	c.Update(0, []nd.Span{span(0, 100)})
	a, _ := c.Take(10)
	b, _ := c.Take(10)
	if void := c.Update(0, []nd.Span{span(0, 15)}); !slices.Equal(void, []nd.Span{b}) {
		t.Errorf("void: %v", void)
	}
	if x, wait := c.Take(10); x != span(10, 15) || wait != Go {
		t.Errorf("then %v", x)
	}
	if _, wait := c.Take(10); wait != Finished {
		t.Errorf("an empty lane: %v", wait)
	}
	c.Finish(a, [2]uint64{})
	c.Parts()
	if void := c.Decide(a, VoidLane); !slices.Equal(void, []nd.Span{a}) {
		t.Errorf("a commit in vain: %v", void)
	}
	if void := c.Update(1, []nd.Span{span(50, 60)}); !slices.Equal(void, []nd.Span{span(10, 15)}) {
		t.Errorf("the epoch ended: %v", void)
	}
}

// plainCursor is a Cursor that remembers the lane and what is taken, and works out all else
// each time.
type plainCursor struct {
	epoch, ahead int64
	lane         []nd.Span
	taken        []taken
}

func (c *plainCursor) Take(n int64) (nd.Span, Wait) {
	rest, left := c.lane, c.ahead
	for _, t := range c.taken {
		rest = less(rest, t.span)
		left -= t.span.Len()
	}
	if len(rest) == 0 {
		return nd.Span{}, Finished
	}
	x := rest[0]
	if x.Stop = min(x.Stop, x.Start+min(n, left)); x.Len() == 0 {
		return nd.Span{}, Leased
	}
	c.taken = append(slices.Clone(c.taken), taken{span: x})
	return x, Go
}

// less is a lane without a span.
func less(lane []nd.Span, x nd.Span) (out []nd.Span) {
	for _, o := range lane {
		before, after := span(o.Start, min(o.Stop, x.Start)), span(max(o.Start, x.Stop), o.Stop)
		if before.Len()+after.Len() >= o.Len() {
			before, after = o, nd.Span{}
		}
		for _, piece := range []nd.Span{before, after} {
			if piece.Len() > 0 {
				out = append(out, piece)
			}
		}
	}
	return out
}

// lose forgets what is taken and of which f says so.
func (c *plainCursor) lose(f func(t taken) bool) (lost []nd.Span) {
	var keep []taken
	for _, t := range c.taken {
		if f(t) {
			lost = append(lost, t.span)
		} else {
			keep = append(keep, t)
		}
	}
	c.taken = keep
	return lost
}

func (c *plainCursor) Update(epoch int64, lane []nd.Span) []nd.Span {
	old := epoch != c.epoch
	c.epoch, c.lane = epoch, slices.Clone(lane)
	return c.lose(func(t taken) bool {
		return old || !t.sent && !slices.ContainsFunc(lane, func(o nd.Span) bool { return o.Intersect(t.span) == t.span })
	})
}

func (c *plainCursor) Finish(x nd.Span) {
	for i := range c.taken {
		if c.taken[i].span == x {
			c.taken[i].done = true
		}
	}
}

func (c *plainCursor) Parts() (list []nd.Span) {
	for i := range c.taken {
		if !c.taken[i].done {
			break
		}
		if !c.taken[i].sent {
			c.taken[i].sent = true
			list = append(list, c.taken[i].span)
		}
	}
	return list
}

func (c *plainCursor) Decide(x nd.Span, v Verdict) []nd.Span {
	lost := c.lose(func(t taken) bool { return t.sent && x.Intersect(t.span) == t.span })
	if v == Effective {
		c.lane = less(c.lane, x)
		return nil
	}
	return lost
}

// randomLane is a lane of positions below n: pieces in any order, some of which touch.
func randomLane(r *rand.Rand, n int64) (lane []nd.Span) {
	for at := r.Int64N(8); at < n; {
		x := span(at, min(n, at+1+r.Int64N(12)))
		lane = append(lane, x)
		at = x.Stop + r.Int64N(2)*r.Int64N(6)
	}
	r.Shuffle(len(lane), func(i, k int) { lane[i], lane[k] = lane[k], lane[i] })
	return lane
}

// A Cursor gives what the plain one gives, whatever is taken, finished, decided, and done to
// the lane.
func TestCursorIsThePlainOne(t *testing.T) {
	const n = 60
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := async(n)
		j.Ahead = 1 + r.Int64N(40)
		c, plain := NewCursor(&j, 0), &plainCursor{epoch: -1, ahead: j.Ahead}
		var sent []nd.Span
		for step := range 120 {
			var got, want string
			switch what := r.IntN(20); {
			case what < 8:
				k := r.Int64N(10)
				x, w := c.Take(k)
				y, v := plain.Take(k)
				got, want = fmt.Sprint("take ", x, w), fmt.Sprint("take ", y, v)
			case what < 13 && len(c.taken) > 0:
				x := c.taken[r.IntN(len(c.taken))].span
				c.Finish(x, [2]uint64{})
				plain.Finish(x)
			case what < 15:
				var parts []nd.Span
				for _, p := range c.Parts() {
					parts = append(parts, p.Span)
				}
				sent = append(sent, parts...)
				got, want = fmt.Sprint("parts ", parts), fmt.Sprint("parts ", plain.Parts())
			case what < 17 && len(sent) > 0: // several that follow each other come as one
				x, v := sent[0], Verdict(r.IntN(2))*VoidLane
				for sent = sent[1:]; len(sent) > 0 && sent[0].Start == x.Stop && r.IntN(2) == 0; sent = sent[1:] {
					x.Stop = sent[0].Stop
				}
				got, want = fmt.Sprint("void ", c.Decide(x, v)), fmt.Sprint("void ", plain.Decide(x, v))
			case what == 17 && len(c.rest) > 0: // what was committed before the rank began
				x := c.rest[r.IntN(len(c.rest))]
				x.Start += r.Int64N(x.Len())
				got, want = fmt.Sprint("void ", c.Decide(x, Effective)), fmt.Sprint("void ", plain.Decide(x, Effective))
			default:
				epoch, lane := plain.epoch, slices.Clone(plain.lane)
				switch r.IntN(6) {
				case 0:
					epoch, sent = epoch+1, nil
					lane = randomLane(r, n)
				case 1:
					lane = randomLane(r, n)
				case 2: // as it is
				default: // another rank has some
					at := r.Int64N(n)
					lane = less(lane, span(at, at+r.Int64N(20)))
				}
				got, want = fmt.Sprint("update ", c.Update(epoch, lane)), fmt.Sprint("update ", plain.Update(epoch, lane))
			}
			if got != want || !slices.Equal(c.taken, plain.taken) || !slices.Equal(c.lane, plain.lane) {
				t.Fatalf("seed %d, step %d: %s, want %s; taken %v, want %v; lane %v, want %v",
					seed, step, got, want, c.taken, plain.taken, c.lane, plain.lane)
			}
		}
	}
}

// pieces is a lane of so many pieces of ten positions.
func pieces(n int) (lane []nd.Span) {
	for at := range int64(n) {
		lane = append(lane, span(20*at, 20*at+10))
	}
	return lane
}

// What a batch costs a rank: no allocation, however many pieces the lane has.
func TestTakeAllocatesNothing(t *testing.T) {
	j := async(1 << 40)
	j.Ahead = 1 << 40
	c := NewCursor(&j, 0)
	c.Update(0, append([]nd.Span{span(1<<30, 1<<31)}, pieces(1024)...))
	c.taken = slices.Grow(c.taken, 2000)
	if n := testing.AllocsPerRun(1000, func() {
		if x, wait := c.Take(5); wait != Go || !c.Holds(x) {
			t.Fatal("nothing to take")
		}
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// BenchmarkTake is a rank's step where ten batches are under way, of a lane of so many pieces.
func BenchmarkTake(b *testing.B) {
	for _, n := range []int{8, 64, 1024} {
		j := async(1 << 62)
		j.Ahead = 1 << 62
		lane := append([]nd.Span{span(1<<20, 1<<62)}, pieces(n-1)...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := NewCursor(&j, 0)
			c.Update(0, lane)
			b.ReportAllocs()
			for b.Loop() {
				if len(c.taken) == 10 {
					c.taken = c.taken[:0]
				}
				c.Take(5)
			}
		})
		b.Run(fmt.Sprint(n, "/plain"), func(b *testing.B) {
			c := &plainCursor{ahead: 1 << 62, lane: lane}
			b.ReportAllocs()
			for b.Loop() {
				if len(c.taken) == 10 {
					c.taken = nil
				}
				c.Take(5)
			}
		})
	}
}
