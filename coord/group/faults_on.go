//go:build coordfault

package group

import "github.com/headrace/headrace/coord"

type faults struct{ fault coord.Fault }

func (f faults) apply(v *voter) { v.machine.Break(f.fault) }

func (f faults) has(x coord.Fault) bool { return f.fault == x }

// Break switches a bug on in this agent, and in its machine now and when it becomes a voter.
func (n *Node) Break(f coord.Fault) {
	n.faults.fault = f
	if n.voter != nil {
		n.faults.apply(n.voter)
	}
}
