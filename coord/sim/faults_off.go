//go:build !coordfault

package sim

import (
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// canBreak reports whether bugs can be switched on.
const canBreak = false

func (w *World) breakNode(*group.Node)       {}
func (w *World) breakMachine(*coord.Machine) {}
