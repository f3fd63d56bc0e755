package group

import (
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// fuzzed is a node that fuzzers feed, as one of these: the leader of a formed job in lockstep
// or async, or one that asks to be admitted.
func fuzzed(t testing.TB, role uint8) *Node {
	cfg := Default()
	cfg.Job = lockstep()
	if role%3 == 1 {
		cfg.Job.Mode, cfg.Job.Ahead = coord.Async, 16
	}
	self := coord.Member{ID: identity(1), Name: "0", Address: address(0), Ranks: []int{0, 1}}
	cfg.Self = coord.Admission{Member: self, Version: coord.Version, Job: cfg.Job.Name, Plan: cfg.Job.Plan}
	if role%3 == 2 {
		cfg.Contacts = []string{address(1)}
	} else {
		cfg.Form = []coord.Member{self, {ID: identity(2), Name: "1", Address: address(1), Ranks: []int{0}}}
	}
	n, err := New(cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	n.pass(20)
	return n
}

// pass has time go on for some beats.
func (n *Node) pass(beats int) {
	for range beats {
		n.Tick(n.now + n.cfg.Beat)
		n.Outbox()
		n.Events()
	}
}

// overheard are messages of a job that forms, one of each kind and more.
func overheard(t testing.TB) (list [][]byte) {
	c := newCluster(t, lockstep(), 3, 1, 5)
	kinds := map[byte]int{}
	c.until("formed", 5*time.Second, func() bool {
		for _, d := range c.queue {
			if kinds[d.data[1]]++; kinds[d.data[1]] <= 2 {
				list = append(list, d.data)
			}
		}
		return c.agree(3)()
	})
	return list
}

// forged is a message of the group from another agent, as one who has the key can make it.
func forged(t testing.TB, m *raftpb.Message) []byte {
	m.From, m.To = new(identity(2).Raft()), new(identity(1).Raft())
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return coord.AppendMessage(nil, &coord.Message{From: coord.Source{ID: identity(2), Address: address(1)}, Body: &coord.Raft{Data: data}})
}

// senseless are messages of the group that none of it sends: raft by itself takes most of them
// for a bug, and panics.
func senseless() (list []*raftpb.Message) {
	far := new(uint64(1 << 40))
	voter := &raftpb.ConfState{Voters: []uint64{identity(2).Raft()}}
	for _, m := range []*raftpb.Message{
		{Type: raftpb.MessageType_MsgHeartbeat.Enum(), Commit: far},
		{Type: raftpb.MessageType_MsgApp.Enum(), Index: new(uint64(1)), LogTerm: new(uint64(1)), Commit: far, Entries: []*raftpb.Entry{
			{Index: new(uint64(2)), Term: new(uint64(9)), Data: []byte{1}}, {Index: far, Term: new(uint64(9))},
		}},
		{Type: raftpb.MessageType_MsgApp.Enum(), Index: far, Entries: []*raftpb.Entry{{Index: new(uint64(3))}}},
		{Type: raftpb.MessageType_MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: far, Term: new(uint64(8)), ConfState: voter}, Data: []byte{1}}},
		{Type: raftpb.MessageType_MsgSnap.Enum(), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(^uint64(0)), Term: new(uint64(8)), ConfState: voter}}},
		{Type: raftpb.MessageType_MsgSnap.Enum()},
		{Type: raftpb.MessageType_MsgReadIndex.Enum()},
		{Type: raftpb.MessageType_MsgAppResp.Enum(), Index: far},
		{Type: raftpb.MessageType_MsgAppResp.Enum(), Index: far, Reject: new(true), RejectHint: far},
		{Type: raftpb.MessageType_MsgTransferLeader.Enum()},
		{Type: raftpb.MessageType_MsgTimeoutNow.Enum()},
		{Type: raftpb.MessageType_MsgVote.Enum(), Index: far, LogTerm: far},
	} {
		for _, term := range []uint64{0, 1, 7, ^uint64(0)} {
			x := proto.CloneOf(m)
			x.Term = &term
			list = append(list, x)
		}
	}
	return list
}

// A message of the group that makes no sense ends the voter, with the reason, where raft cannot
// go on; it ends no process. A member that began again is another one.
func TestForgedMessagesEndAVoter(t *testing.T) {
	broken := 0
	for _, m := range senseless() {
		for role := range uint8(3) {
			n := fuzzed(t, role)
			n.Receive(n.now, forged(t, m))
			for _, e := range n.Events() {
				if e.Kind == Broken {
					broken++
					if s := n.State(); s.Ending == "" || s.Votes || s.Leads || e.Reason != s.Ending {
						t.Errorf("%v: broken by %q, and %+v", m, e.Reason, s)
					}
				}
			}
			n.pass(30)
		}
	}
	if broken < 5 {
		t.Errorf("%d of these have broken a voter: they are not what raft panics at", broken)
	}
}

// What a peer of the job says that can be read, and makes no sense, ends no process; only what it
// says as a voter can break one.
func FuzzNode(f *testing.F) {
	for i, m := range overheard(f) {
		f.Add(uint8(i), m, m)
	}
	from := coord.Source{ID: identity(2), Address: address(1)}
	prop, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MessageType_MsgProp.Enum(), From: new(identity(2).Raft()), To: new(identity(1).Raft()),
		Entries: []*raftpb.Entry{{Data: []byte{99}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	for role := range uint8(3) {
		for _, b := range []coord.Body{
			&coord.Raft{Data: prop},
			&coord.Brief{Known: coord.Stamp{View: 9, Index: 9}, Deltas: []coord.Delta{{}}},
			&coord.Brief{Known: coord.Stamp{View: 9, Index: 9}, Hint: true},
			&coord.Brief{Known: coord.Stamp{View: 1, Index: 9}, Deltas: make([]coord.Delta, 1), Hint: true},
			&coord.Brief{Known: coord.Stamp{View: 1}, View: &coord.View{Number: 7}, Lanes: nil, Seq: 3, Verdicts: []coord.Verdict{0}},
			&coord.Ask{Entry: &coord.Redo{Step: 1 << 62}},
			&coord.Ask{Entry: &coord.Commit{Author: identity(2), Seq: 1, Parts: []coord.Part{{Local: 1 << 19}}}},
			&coord.Report{Author: identity(2), View: 99, Done: 1 << 62, Ranks: []int{1 << 19}},
			&coord.Gone{ID: identity(1)},
		} {
			m := coord.AppendMessage(nil, &coord.Message{From: from, Body: b})
			f.Add(role, m, m)
		}
	}
	for i, m := range senseless() {
		f.Add(uint8(i/4), forged(f, m), forged(f, m))
	}
	f.Fuzz(func(t *testing.T, role uint8, first, second []byte) {
		n, voted := fuzzed(t, role), false
		for _, data := range [][]byte{first, second} {
			m, err := coord.ParseMessage(data)
			if err != nil {
				continue
			}
			b, is := m.Body.(*coord.Raft)
			if is {
				var r raftpb.Message
				if err := proto.Unmarshal(b.Data, &r); err != nil {
					continue
				}
				data = forged(t, &r) // else hardly any is for this agent
				is = r.GetType() != raftpb.MessageType_MsgProp
			}
			voted = voted || is
			n.Receive(n.now, data)
			for _, e := range n.Events() {
				if e.Kind == Broken && !voted {
					t.Errorf("broken by %T: %s", m.Body, e.Reason)
				}
			}
			n.State()
			_, _ = n.Waiting(), n.Held()
			n.pass(30)
		}
	})
}
