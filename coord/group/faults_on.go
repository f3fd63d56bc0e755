//go:build coordfault

package group

import "github.com/headrace/headrace/coord"

type faults struct{ fault coord.Fault }

// start takes a voter into use, with the bug.
func (n *Node) start(v *voter) *voter {
	v.machine.Break(n.faults.fault)
	return v
}

// Break switches a bug on in this agent's machine, now and when it becomes a voter.
func (n *Node) Break(f coord.Fault) {
	n.faults.fault = f
	if n.voter != nil {
		n.start(n.voter)
	}
}
