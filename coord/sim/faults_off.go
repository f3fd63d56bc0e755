//go:build !coordfault

package sim

import (
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

func (w *World) breakNode(*group.Node)       {}
func (w *World) breakMachine(*coord.Machine) {}
