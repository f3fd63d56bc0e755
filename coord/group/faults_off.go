//go:build !coordfault

package group

import "go.etcd.io/raft/v3/raftpb"

// faults is empty.
type faults struct{}

func (faults) apply(*voter)                  {}
func (faults) hears(*voter, *raftpb.Message) {}
func (faults) changes(*voter)                {}
