//go:build !coordfault

package group

import "github.com/headrace/headrace/coord"

// faults is empty.
type faults struct{}

func (faults) apply(*voter) {}

func (faults) has(coord.Fault) bool { return false }
