package group

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// stands lists who may stand, in the order of their turns. While the voters change the old ones do
// as well, after the new ones: of all that are left only one of them may have all that is decided.
func (v *voter) stands() []uint64 {
	list := sorted(v.config.GetVoters())
	for _, id := range sorted(v.config.GetVotersOutgoing()) {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

func sorted(list []uint64) []uint64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// votes reports whether a message is one of an election. These say how far their sender has the log
// and how far it knows it to be decided: see tellDecided.
func votes(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MessageType_MsgPreVote, raftpb.MessageType_MsgPreVoteResp, raftpb.MessageType_MsgVote, raftpb.MessageType_MsgVoteResp:
		return true
	}
	return false
}

// tellDecided tells a voter that takes part in an election what is decided and it does not know to
// be. Only leaders say so in raft; where the last one is gone and its last word was lost, a change
// of the voters may be decided of which those that are to decide alone do not know: they wait for
// the voices of voters who have left or are dead. What is told is what any leader since would
// say of the log up to there, so nobody takes it who has another log. Who is told waits for its next
// turn to stand; so where the group elects as usual, nothing is told.
func (n *Node) tellDecided(m *raftpb.Message) {
	v, self := n.voter, n.cfg.Self.ID.Raft()
	status := v.node.BasicStatus()
	decided, term := status.GetCommit(), status.GetTerm()
	if v.leads || v.broken != "" || decided <= m.GetCommit() || v.has(self) && n.now-v.led < deafAfter*n.cfg.Beat {
		return
	}
	if m.GetIndex() < decided {
		return // it lacks what is decided, and waits for who stands and has it
	}
	switch m.GetType() {
	case raftpb.MessageType_MsgPreVote, raftpb.MessageType_MsgVote:
		term = max(term, max(1, m.GetTerm())-1) // it does not listen to older ones than its own
	}
	at, err := v.storage.Term(decided)
	if err != nil {
		return // older than all that is kept
	}
	n.sendRaft([]*raftpb.Message{{
		Type: raftpb.MessageType_MsgApp.Enum(), From: &self, To: new(m.GetFrom()), Term: &term, Index: &decided, LogTerm: &at, Commit: &decided,
	}})
}

// sayDecided adds to a message of an election what tellDecided wants to know.
func (v *voter) sayDecided(m *raftpb.Message) {
	m.Commit = new(v.node.BasicStatus().GetCommit())
	switch m.GetType() {
	case raftpb.MessageType_MsgPreVoteResp, raftpb.MessageType_MsgVoteResp:
		last, _ := v.storage.LastIndex() // memory has it
		m.Index = &last
	}
}
