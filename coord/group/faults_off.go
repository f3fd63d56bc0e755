//go:build !coordfault

package group

// start takes a voter into use.
func (n *Node) start(v *voter) *voter { return v }

// faults is empty.
type faults struct{}
