package probe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// What is worth a rewrite of the data.
const (
	worthFaster  = 1.25 // times as fast
	worthSmaller = 0.85 // of the size, at the same speed
	larger       = 1.10 // of the size: more is never advised
	alike        = 1.05 // rates within this are the same
)

// target is where batches go: to the GPU or to the host's memory.
type target bool

const (
	toGPU  target = false
	onHost target = true
)

func (t target) rate(c *Candidate) float64 {
	if t == onHost {
		return c.HostF32GBPerS
	}
	return c.F32GBPerS
}

func (t target) bound(c *Candidate) string {
	if t == onHost {
		return c.HostBound
	}
	return c.Bound
}

func (t target) String() string {
	if t == onHost {
		return "host"
	}
	return "gpu"
}

// rank sorts the table, best first; of equally fast rows the smaller one is better, and
// of equal ones the one that is there.
func (t target) rank(table []Candidate) {
	slices.SortStableFunc(table, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(t.rate(&b), t.rate(&a)), cmp.Compare(a.Size, b.Size), cmp.Compare(number(b.AsStored), number(a.AsStored)))
	})
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// advise picks from a table with one row as stored. A codec that makes the data much
// larger is never advised: memory and disks are what most jobs run out of.
func (t target) advise(table []Candidate) Advice {
	at := slices.IndexFunc(table, func(c Candidate) bool { return c.AsStored })
	if at < 0 {
		return Advice{Action: "keep", Faster: 1, Size: 1, Text: "keep: no chunk is stored, there is nothing to decode"}
	}
	now := &table[at]
	best := t.best(table, now)
	if best == nil || best == now {
		return Advice{"keep", now.Codec, 1, 1, "keep: nothing that was tried is faster or smaller"}
	}
	faster, size := t.rate(best)/t.rate(now), best.Size
	a := Advice{"rewrite", best.Codec, faster, size, ""}
	if faster < worthFaster && !(faster >= 1/alike && size <= worthSmaller) {
		a.Action, a.Codec, a.Faster, a.Size = "keep", now.Codec, 1, 1
		a.Text = fmt.Sprintf("keep: the best that was tried, %s, is %s and %s", best.Codec, t.speed(faster), sized(size))
		return a
	}
	a.Text = fmt.Sprintf("rewrite with %s: %s and %s", best.Codec, t.speed(faster), sized(size))
	return a
}

// best is the fastest row that is not much larger; the smallest of those that are as
// fast.
func (t target) best(table []Candidate, now *Candidate) *Candidate {
	var best *Candidate
	top := 0.0
	for i := range table {
		if c := &table[i]; c.Size <= larger*now.Size {
			top = max(top, t.rate(c))
		}
	}
	for i := range table {
		c := &table[i]
		if c.Size > larger*now.Size || t.rate(c)*alike < top || top == 0 {
			continue
		}
		if best == nil || c.Size < best.Size || c.Size == best.Size && c.AsStored {
			best = c
		}
	}
	return best
}

func (t target) speed(times float64) string {
	where := "to the GPU"
	if t == onHost {
		where = "on the host"
	}
	switch {
	case times >= alike:
		return fmt.Sprintf("%.1fx faster %s", times, where)
	case times <= 1/alike:
		return fmt.Sprintf("%.1fx slower %s", 1/times, where)
	}
	return "as fast " + where
}

func sized(size float64) string {
	percent := math.Round(math.Abs(1-size) * 100)
	switch {
	case percent == 0:
		return "of the same size"
	case size < 1:
		return fmt.Sprintf("%.0f %% smaller", percent)
	}
	return fmt.Sprintf("%.0f %% larger", percent)
}
