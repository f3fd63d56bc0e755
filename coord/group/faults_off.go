//go:build !coordfault

package group

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/headrace/headrace/coord"
)

// faults is empty.
type faults struct{}

func (faults) apply(*voter)                  {}
func (faults) hears(*voter, *raftpb.Message) {}
func (faults) changes(*voter)                {}
func (faults) has(coord.Fault) bool          { return false }
