package group

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// dropped counts what was dropped for a reason.
func (m *machine) dropped(why string) (count int) {
	for _, e := range m.events {
		if e.Kind == Dropped && strings.Contains(e.Reason, why) {
			count++
		}
	}
	return count
}

// An entry that cannot be read back ends no voter: who proposes it does not, a voter takes none
// from another, and one that stands in the log for all that is passed over by all of them alike.
func TestUnreadableEntries(t *testing.T) {
	c := newCluster(t, lockstep(), 3, 1, 11)
	c.until("formed", 5*time.Second, c.agree(3))
	c.until("voters", 5*time.Second, func() bool { return c.voters() == 3 })
	leader := c.nodes[0]
	for _, n := range c.nodes {
		if n.State().Leads {
			leader = n
		}
	}
	long := &coord.Change{Admit: []coord.Admission{{Member: coord.Member{Rack: strings.Repeat("x", 300)}}}}
	if leader.propose(long) {
		t.Error("an entry beyond the bounds was proposed")
	}
	for name, e := range map[string]*raftpb.Entry{
		"no entry":           {Data: []byte{99}},
		"nothing":            {},
		"a change of voters": {Type: raftpb.EntryType_EntryConfChangeV2.Enum(), Data: []byte{0xff}},
	} {
		before := leader.dropped("proposal")
		other := c.nodes[(leader.place+1)%3]
		m := &raftpb.Message{Type: raftpb.MessageType_MsgProp.Enum(), From: new(other.cfg.Self.ID.Raft()), To: new(leader.cfg.Self.ID.Raft()), Entries: []*raftpb.Entry{e}}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		leader.Receive(c.now, coord.AppendMessage(nil, &coord.Message{From: other.source(), To: leader.cfg.Self.ID, Body: &coord.Raft{Data: data}}))
		c.collect(leader)
		if leader.dropped("proposal") != before+1 {
			t.Errorf("%s: a voter took it", name)
		}
	}
	if err := leader.voter.node.Propose(coord.AppendEntry(nil, long)); err != nil {
		t.Fatal(err)
	}
	c.until("all have passed it over", 5*time.Second, func() bool {
		for _, n := range c.nodes {
			if n.dropped("an entry that cannot be read:") != 1 {
				return false
			}
		}
		return true
	})
	c.add(3, 1, nil)
	c.until("the job goes on", 5*time.Second, c.agree(4))
}

// An agent whom the others could not read does not begin: it would wait for ever.
func TestUnreadableConfigs(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"rack":    func(c *Config) { c.Self.Rack = strings.Repeat("r", 300) },
		"address": func(c *Config) { c.Self.Address = strings.Repeat("a", 300) },
		"plan":    func(c *Config) { c.Self.Plan = strings.Repeat("p", 300) },
		"member": func(c *Config) {
			c.Form = []coord.Member{c.Self.Member}
			c.Form[0].Name = strings.Repeat("n", 300)
		},
		"start": func(c *Config) {
			c.Form = []coord.Member{c.Self.Member}
			c.Start.Step = math.MinInt64
		},
	} {
		cfg := Default()
		cfg.Job = lockstep()
		cfg.Self = coord.Admission{Member: coord.Member{ID: identity(1), Address: address(1), Ranks: []int{0}}, Version: coord.Version, Job: "j", Plan: "p"}
		cfg.Contacts = []string{address(0)}
		if _, err := New(cfg, 0); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if _, err := New(cfg, 0); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
