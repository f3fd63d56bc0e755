//go:build !coordfault

package group

// faults is empty.
type faults struct{}

func (faults) apply(*voter) {}
