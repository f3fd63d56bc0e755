package group

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// commits are the parts that this agent's ranks have done and the log does not have yet. One
// commit is under way at a time: it is sent until its outcome is known, and parts that
// were void only because the view was another one go into the next.
type commits struct {
	waiting []Waiting // in the order in which they were done, lane by lane
	seq     uint64    // of the commit under way, or of the last one
	decided uint64    // last one whose outcome is known
	under   *coord.Commit
	sent    time.Duration
}

// Waiting is a part of which nothing is known yet, and the seat that has done it: a number of
// the caller's, another one for each process that takes a local rank's place. The lane of
// one that has ended is another's: what it did cannot come into a later view.
type Waiting struct {
	coord.Part
	Seat uint64

	left bool // there was a view without the seat
}

// maxWaiting bounds the parts that wait: a rank that is that far ahead is told to wait.
const maxWaiting = 1 << 14

// Commit adds what a seat has done. It is false where too much waits already.
func (n *Node) Commit(now time.Duration, seat uint64, parts []coord.Part) bool {
	n.now = now
	c := &n.commit
	if len(c.waiting)+len(parts) > maxWaiting {
		return false
	}
	for _, p := range parts {
		c.add(Waiting{Part: p, Seat: seat})
	}
	return true
}

// Undecided lists the parts whose outcome is not known.
func (n *Node) Undecided() []Waiting { return n.commit.waiting }

// add joins a part to the one before it of its lane, where they touch and neither is
// under way.
func (c *commits) add(p Waiting) {
	under := 0
	if c.under != nil {
		under = len(c.under.Parts)
	}
	for i := len(c.waiting) - 1; i >= under; i-- {
		w := &c.waiting[i]
		if w.Local == p.Local {
			if w.Seat == p.Seat && w.Epoch == p.Epoch && w.Span.Stop == p.Span.Start {
				w.Span.Stop = p.Span.Stop
				w.Digest[0] += p.Digest[0]
				w.Digest[1] += p.Digest[1]
				return
			}
			break
		}
	}
	c.waiting = append(c.waiting, p)
}

// leave tells that there is a view without a local rank: what its seat has done and the log
// does not have is void, but for what is under way. A seat that comes in its place commits
// in a later view, so all that waits now is that seat's.
func (c *commits) leave(n *Node, local int) {
	under := 0
	if c.under != nil {
		under = len(c.under.Parts)
	}
	kept := c.waiting[:0]
	for i, w := range c.waiting {
		if w.Local == local {
			w.left = true
			if i >= under {
				n.event(Event{Kind: Decided, ID: n.cfg.Self.ID, Part: w.Part, Seat: w.Seat, Verdict: coord.VoidView})
				continue
			}
		}
		kept = append(kept, w)
	}
	c.waiting = kept
}

// send sends the commit under way again, or the next one.
func (c *commits) send(n *Node) {
	if !n.member() {
		return
	}
	fresh := false
	if c.under == nil {
		parts := c.next()
		if len(parts) == 0 || n.now-c.sent < n.commitEvery() {
			return
		}
		c.seq++
		c.under = &coord.Commit{View: n.view.Number, Author: n.cfg.Self.ID, Seq: c.seq, Parts: parts}
		fresh = true
	}
	if !fresh && n.now-c.sent < again*n.cfg.Beat {
		return
	}
	c.sent = n.now
	if n.voter != nil && n.propose(c.under) {
		return
	}
	n.send(n.toLeader(), &coord.Ask{Entry: c.under})
}

// commitEvery is how often an agent commits at most: the log takes some thousand commits a
// second from all of them.
func (n *Node) commitEvery() time.Duration {
	return n.cfg.Beat * time.Duration(len(n.view.Members)/membersPerBeat)
}

// membersPerBeat is how many agents may commit within a beat.
const membersPerBeat = 200

// next is the parts of the next commit: the begin of what waits.
func (c *commits) next() []coord.Part {
	parts := make([]coord.Part, min(len(c.waiting), coord.MaxParts))
	for i := range parts {
		parts[i] = c.waiting[i].Part
	}
	return parts
}

// learn takes the outcome of the commit under way.
func (c *commits) learn(n *Node) {
	if c.under == nil || n.known.Seq != c.seq || len(n.known.Verdicts) != len(c.under.Parts) {
		return
	}
	done := c.under
	c.under, c.decided = nil, c.seq
	under, rest := c.waiting[:len(done.Parts)], c.waiting[len(done.Parts):]
	var again []Waiting
	for i, w := range under {
		switch v := n.known.Verdicts[i]; {
		case v == coord.VoidView && !w.left && n.member() && done.View != n.view.Number:
			again = append(again, w) // the positions may still be the lane's
		default:
			n.event(Event{Kind: Decided, ID: done.Author, Seq: done.Seq, Part: w.Part, Seat: w.Seat, Verdict: v})
		}
	}
	c.waiting = slices.Concat(again, rest)
}
