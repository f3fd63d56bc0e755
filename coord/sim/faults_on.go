//go:build coordfault

package sim

import (
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

const canBreak = true

func (w *World) breakNode(n *group.Node)       { n.Break(w.sc.Break) }
func (w *World) breakMachine(m *coord.Machine) { m.Break(w.sc.Break) }
