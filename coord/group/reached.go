package group

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
)

// Reached is how far a rank is: all steps below Done are done, those below Used are delivered. View
// and Redos are those under which it works; a rank that has entered no view has 0.
type Reached struct {
	Local       int
	View, Redos uint64
	Done, Used  int64
}

// Progress says how far each of the ranks is that there are. What they have reached together is
// reported once all that the view has have heard of the same redos.
func (n *Node) Progress(now time.Duration, ranks []Reached) {
	n.now = now
	if r, ok := n.together(ranks); ok {
		n.entered, n.redos, n.done, n.used = r.View, r.Redos, r.Done, r.Used
	}
}

// together is how far all ranks are that the view has. One that waits for a view that has it, in
// the place of a rank that was lost, has heard of no redo, and is let in only when all others have
// begun theirs: they must not wait for it.
func (n *Node) together(ranks []Reached) (all Reached, ok bool) {
	if !n.member() {
		return all, false
	}
	in := n.serves()
	for _, r := range ranks {
		switch {
		case !slices.Contains(in, r.Local) && !n.faults.has(coord.WaitingHoldUp):
			continue
		case !ok:
			all, ok = r, true
		case r.Redos != all.Redos:
			return all, false
		}
		all.View, all.Done, all.Used = min(all.View, r.View), min(all.Done, r.Done), max(all.Used, r.Used)
	}
	return all, ok
}

// Reached is the step up to which the ranks of this node have last been together, and after how many
// redos that was.
func (n *Node) Reached() (step int64, redos uint64) { return n.done, n.redos }
