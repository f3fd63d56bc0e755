package coord

import (
	"slices"

	"github.com/headrace/headrace/nd"
)

// Cursor is where a rank of an async job is in its lane: which positions it may
// deliver next, and which it has delivered that the log does not have yet. It belongs
// to one goroutine.
//
//	Update(lane) ──▶ Take ──▶ the rank delivers ──▶ Finish ──▶ Part ──▶ Decide
//
// Positions that are taken stay in the lane until their commit is applied. When the lane
// changes under them, those that it does not have any more are void: another rank has
// them, and this one must forget what it made of them.
//
// Take is on the path of each batch: it looks at the head of the rest alone, however many
// pieces the lane is cut into. What changes the lane works the rest out.
type Cursor struct {
	epoch int64
	lane  spans // as the machine has it
	ahead int64
	local int
	taken []taken // in the order in which they were taken, which is the lane's
	rest  spans   // the lane without what is taken
	under int64   // positions that are taken
}

type taken struct {
	span   nd.Span
	digest [2]uint64
	done   bool // the rank has finished it
	sent   bool // it is in a commit
}

// NewCursor is that of a member's local rank in a job.
func NewCursor(job *Job, local int) *Cursor {
	return &Cursor{ahead: job.Ahead, local: local, epoch: -1}
}

// Epoch is that of the lane, -1 before there is one.
func (c *Cursor) Epoch() int64 { return c.epoch }

// Update takes the lane as the newest state has it. It returns what was taken, and is
// void now.
func (c *Cursor) Update(epoch int64, lane []nd.Span) (void []nd.Span) {
	if epoch != c.epoch {
		for _, t := range c.taken {
			void = append(void, t.span)
		}
		c.epoch, c.taken = epoch, c.taken[:0]
	} else if slices.Equal(c.lane, lane) {
		return nil // of what is taken, all that is void has been told
	}
	c.lane = append(c.lane[:0], lane...)
	c.taken = slices.DeleteFunc(c.taken, func(t taken) bool {
		if t.sent || c.lane.holds(t.span) {
			return false
		}
		void = append(void, t.span)
		return true
	})
	c.count()
	return void
}

// holds reports whether a span lies in one of the lane's.
func (s spans) holds(x nd.Span) bool {
	return slices.ContainsFunc(s, func(o nd.Span) bool { return o.Start <= x.Start && x.Stop <= o.Stop })
}

// count works out the rest.
func (c *Cursor) count() {
	c.rest, c.under = append(c.rest[:0], c.lane...), 0
	for _, t := range c.taken {
		c.rest.cut(t.span)
		c.under += t.span.Len()
	}
}

// cut takes a span out of a lane, in place.
func (s *spans) cut(x nd.Span) {
	for i := 0; i < len(*s); i++ {
		o := &(*s)[i]
		before, after := nd.Span{Start: o.Start, Stop: x.Start}, nd.Span{Start: x.Stop, Stop: o.Stop}
		switch {
		case x.Stop <= o.Start || o.Stop <= x.Start:
		case before.Len() > 0 && after.Len() > 0:
			*o = before
			*s = slices.Insert(*s, i+1, after)
		case before.Len() > 0:
			*o = before
		case after.Len() > 0:
			*o = after
		default:
			*s = slices.Delete(*s, i, i+1)
			i--
		}
	}
}

// Wait is why nothing can be taken.
type Wait uint8

// The reasons.
const (
	Go       Wait = iota // something can
	Finished             // the lane is empty: the rank waits for other work, or the epoch's end
	Leased               // as much is taken as may be without a commit
)

// Take gives at most n positions that follow each other, to be delivered.
func (c *Cursor) Take(n int64) (nd.Span, Wait) {
	if len(c.rest) == 0 {
		return nd.Span{}, Finished
	}
	head := &c.rest[0]
	x := nd.Span{Start: head.Start, Stop: min(head.Stop, head.Start+min(n, c.ahead-c.under))}
	if x.Stop <= x.Start {
		return nd.Span{}, Leased
	}
	c.under += x.Len()
	if head.Start = x.Stop; head.Len() == 0 {
		c.rest = c.rest[1:]
	}
	c.taken = append(c.taken, taken{span: x})
	return x, Go
}

// Finish says that the rank is done with positions that it took, and their digest. It
// is false where they are void.
func (c *Cursor) Finish(x nd.Span, digest [2]uint64) bool {
	for i := range c.taken {
		if t := &c.taken[i]; t.span == x && !t.done {
			t.done, t.digest = true, digest
			return true
		}
	}
	return false
}

// Parts gives what can be committed now, in the lane's order: what is finished and has
// nothing unfinished before it.
func (c *Cursor) Parts() (parts []Part) {
	for i := range c.taken {
		t := &c.taken[i]
		if !t.done || t.sent {
			if t.sent {
				continue
			}
			break
		}
		t.sent = true
		parts = append(parts, Part{Local: c.local, Epoch: c.epoch, Span: t.span, Digest: t.digest})
	}
	return parts
}

// Holds reports whether positions are taken, and not finished.
func (c *Cursor) Holds(x nd.Span) bool {
	return slices.ContainsFunc(c.taken, func(t taken) bool { return t.span == x && !t.done })
}

// Undecided lists what is finished, and of which it is not known whether it counts.
func (c *Cursor) Undecided() (list []nd.Span) {
	for _, t := range c.taken {
		if t.done {
			list = append(list, t.span)
		}
	}
	return list
}

// Sent lists what was taken and is in a commit, within a span that was decided.
func (c *Cursor) Sent(x nd.Span) (list []nd.Span) {
	for _, t := range c.taken {
		if t.sent && x.Start <= t.span.Start && t.span.Stop <= x.Stop {
			list = append(list, t.span)
		}
	}
	return list
}

// Decide takes what became of a part, which may be several of those that Parts gave,
// joined. It returns what is void.
func (c *Cursor) Decide(x nd.Span, v Verdict) (void []nd.Span) {
	c.taken = slices.DeleteFunc(c.taken, func(t taken) bool {
		if !t.sent || t.span.Start < x.Start || t.span.Stop > x.Stop {
			return false
		}
		if v != Effective {
			void = append(void, t.span)
		}
		c.under -= t.span.Len()
		return true
	})
	if v == Effective {
		c.lane.cut(x)
		c.rest.cut(x)
	} else if len(void) > 0 {
		c.count() // they may be in the lane still, to be taken again
	}
	return void
}
