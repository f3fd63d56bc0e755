//go:build !coordfault

package coord

// faults is empty.
type faults struct{}

func (faults) has(Fault) bool { return false }
