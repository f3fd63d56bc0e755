package coord

import (
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
