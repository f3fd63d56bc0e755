package group

import (
	"fmt"

	"go.etcd.io/raft/v3"
)

// call runs code of the library. What raft holds for impossible it answers with a panic, and all
// of it can be brought about by one message of who has the key: a commit beyond the log, entries
// that contradict what is committed, a change that leaves no voter. No list of checks would be
// whole, and a raft that has panicked is in no state to go on: so it ends this voter, with the
// reason, and not the process with its ranks. See broke.
func (v *voter) call(f func()) {
	if v.broken != "" {
		return
	}
	defer func() {
		if x := recover(); x != nil {
			v.broken = fmt.Sprint(x)
		}
	}()
	f()
}

// next is what raft wants done, if anything; it is stored.
func (v *voter) next() (rd raft.Ready, some bool) {
	v.call(func() {
		if v.node.HasReady() {
			rd = v.node.Ready()
			v.keep(rd)
			some = true
		}
	})
	return rd, some
}

// transfer has another voter lead. One that was asked before and has not come is waited for no
// more.
func (v *voter) transfer(self, to uint64) {
	v.call(func() {
		v.node.TransferLeader(self)
		if to != 0 {
			v.node.TransferLeader(to)
		}
	})
}

// broke ends the part of an agent whose voter met what cannot be. It may come back as another
// member, which has promised nothing.
func (n *Node) broke() {
	why := "a voter was told what cannot be, or has a bug: " + n.voter.broken
	n.voter, n.past = nil, nil
	n.lead.reset()
	n.event(Event{Kind: Broken, ID: n.cfg.Self.ID, Reason: why})
	if n.ending == "" {
		n.end(why)
	}
}
