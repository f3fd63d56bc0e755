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

// What a peer of the job says that can be read, and makes no sense, ends no agent. Of raft's
// own messages proposals are tried alone: raft takes the others from voters, who are believed.
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
	f.Fuzz(func(t *testing.T, role uint8, first, second []byte) {
		n := fuzzed(t, role)
		for _, data := range [][]byte{first, second} {
			m, err := coord.ParseMessage(data)
			if err != nil {
				continue
			}
			if b, is := m.Body.(*coord.Raft); is {
				var r raftpb.Message
				if err := proto.Unmarshal(b.Data, &r); err == nil && r.GetType() != raftpb.MessageType_MsgProp {
					continue
				}
			}
			n.Receive(n.now, data)
			n.State()
			_, _ = n.Waiting(), n.Held()
			n.pass(30)
		}
	})
}
