package agent

import (
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// breaks sends an agent a message of the group that raft panics at: it commits what is not there.
func (p *peer) breaks(t *testing.T, to coord.ID, address string) {
	t.Helper()
	from := coord.ID{7: 1, 8: 9}
	data, err := proto.Marshal(&raftpb.Message{
		Type: raftpb.MessageType_MsgHeartbeat.Enum(), From: new(from.Raft()), To: new(to.Raft()), Term: new(uint64(1 << 20)), Commit: new(uint64(1 << 40)),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.send(address, coord.AppendMessage(nil, &coord.Message{From: coord.Source{ID: from, Address: p.address}, Body: &coord.Raft{Data: data}}))
}

func (h *host) identity() (id coord.ID) {
	h.Look(func(s Sight) { id = s.ID })
	return id
}

// A voter that is told what cannot be comes back as another member where there are others; where
// it was alone the agent says so and gives up. Neither ends the process.
func TestBrokenVoter(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 400)
	var others []*host
	for _, name := range []string{"b", "c"} {
		others = append(others, startHost(t, name, func(c *Config) { c.Contacts, c.Witness = []string{a.Address()}, true }))
	}
	eventually(t, ctx, "three decide", func() bool {
		return a.State().View != nil && len(a.State().View.Voters) == 3 && others[0].State().Votes
	})
	b := others[0]
	before := b.identity()
	newPeer(t).breaks(t, before, b.Address())
	eventually(t, ctx, "it is another member", func() bool { return b.identity() != before && b.included() })
	l := &ledger{done: map[int64]int{}}
	if err := w.work(ctx, l, 0); err != nil || len(l.done) != 400 {
		t.Errorf("%d of 400 positions, %v", len(l.done), err)
	}
}

func TestBrokenAlone(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 50)
	newPeer(t).breaks(t, a.identity(), a.Address())
	if err := w.work(ctx, &ledger{done: map[int64]int{}}, 1000); err == nil || !strings.Contains(err.Error(), "a voter was told what cannot be") {
		t.Errorf("the rank hears %v", err)
	}
	if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("ready: %v", err)
	}
}
