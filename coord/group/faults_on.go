//go:build coordfault

package group

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/headrace/headrace/coord"
)

type faults struct{ fault coord.Fault }

func (f faults) apply(v *voter) { v.machine.Break(f.fault) }

func (f faults) has(x coord.Fault) bool { return f.fault == x }

// hears is before a voter takes a message of the group.
func (f faults) hears(v *voter, m *raftpb.Message) {
	if f.fault == coord.AllHeld && v.leads && m.GetType() == raftpb.MessageType_MsgAppResp && !m.GetReject() {
		last, _ := v.storage.LastIndex() // memory has it
		m.Index = &last
	}
}

// changes is behind a change of voters that is applied.
func (f faults) changes(v *voter) {
	if f.fault == coord.OldVotersUnasked && len(v.config.GetVotersOutgoing()) > 0 {
		v.call(func() { v.config = v.node.ApplyConfChange(&raftpb.ConfChangeV2{}) })
	}
}

// Break switches a bug on in this agent, and in its machine now and when it becomes a voter.
func (n *Node) Break(f coord.Fault) {
	n.faults.fault = f
	if n.voter != nil {
		n.faults.apply(n.voter)
	}
}
