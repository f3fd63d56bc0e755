package group

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/coord"
)

// voter is an agent's replica of the log and what it amounts to.
type voter struct {
	node    *raft.RawNode
	storage *raft.MemoryStorage
	machine coord.Machine
	config  *raftpb.ConfState // as applied
	applied uint64
	begin   uint64        // the entries behind it are those that the storage keeps
	sizes   []int         // of the kept ones that are applied, in bytes
	bytes   int           // sum of sizes
	heard   time.Duration // of the leader, or that this one stood
	led     time.Duration // when the leader last said something, or this one began or ended to lead
	asked   time.Duration // when anyone of the group did
	leader  uint64
	leads   bool
	alone   time.Duration // until then the leader is known to have no majority
	broken  string        // why it cannot go on; empty: it can

	// answered is when each voter has last said something to this one, which leads.
	answered map[uint64]time.Duration
	since    time.Duration // when it came to lead
}

const (
	// keepEntries is how many applied entries stay for voters that lag; those that are
	// further behind get a snapshot.
	keepEntries = 256
	// compactEvery is how many entries are applied between snapshots.
	compactEvery = 1024
	// compactBytes is how many bytes the applied entries may have until that is done before, and
	// keepBytes how many of them stay: a Change that admits thousands has some MiB.
	compactBytes = 16 << 20
	keepBytes    = compactBytes / 4
	// maxProposed bounds what a leader has proposed and nobody acknowledged.
	maxProposed = 16 << 20
)

// founder is the only voter of a new group.
func founder(id uint64) *voter {
	s := raft.NewMemoryStorage()
	config := &raftpb.ConfState{Voters: []uint64{id}}
	first := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: proto.Uint64(1), Term: proto.Uint64(1), ConfState: config}}
	if err := s.ApplySnapshot(first); err != nil {
		panic(err) // an empty storage takes any snapshot
	}
	return newVoter(id, s, config, 1)
}

// newcomer is a voter that the others bring up to date.
func newcomer(id uint64) *voter {
	return newVoter(id, raft.NewMemoryStorage(), &raftpb.ConfState{}, 0)
}

func newVoter(id uint64, s *raft.MemoryStorage, config *raftpb.ConfState, applied uint64) *voter {
	node, err := raft.NewRawNode(&raft.Config{
		ID: id, Storage: s, Applied: applied, Logger: quiet{},
		ElectionTick: math.MaxInt32, HeartbeatTick: 1, PreVote: true, StepDownOnRemoval: true, // elections are ours: see voter.tick
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64, MaxUncommittedEntriesSize: maxProposed,
	})
	if err != nil {
		panic(err) // the config is constant but for the ID, which New has checked
	}
	return &voter{node: node, storage: s, config: config, applied: applied, begin: applied}
}

func (v *voter) has(id uint64) bool {
	return slices.Contains(v.config.GetVoters(), id) || slices.Contains(v.config.GetVotersOutgoing(), id)
}

// tick has the leader send heartbeats, and stands for election when there is silence:
// the first voter after Silence, each further one Stagger later.
func (v *voter) tick(n *Node) {
	v.call(v.node.Tick)
	if v.leads {
		v.heard = n.now
		n.lead.decide(n)
		return
	}
	place := slices.Index(v.stands(), n.cfg.Self.ID.Raft())
	if place >= 0 && n.now-v.heard >= n.cfg.Silence+time.Duration(place)*n.cfg.Stagger {
		v.heard = n.now
		v.call(func() { _ = v.node.Campaign() }) // who may not stand now may later
	}
}

// receiveRaft takes a message of the group. It makes this agent a voter: only voters
// send such, and they mean this ID, which is never used again.
func (n *Node) receiveRaft(from coord.Source, data []byte) {
	var m raftpb.Message
	if err := proto.Unmarshal(data, &m); err != nil || m.GetFrom() != from.ID.Raft() || m.GetTo() != n.cfg.Self.ID.Raft() || raft.IsLocalMsg(m.GetType()) {
		n.event(Event{Kind: Dropped, ID: from.ID, Reason: "a message of the group that is not for this agent, or broken"})
		return
	}
	if m.GetType() == raftpb.MessageType_MsgProp && !proposable(m.GetEntries()) {
		n.event(Event{Kind: Dropped, ID: from.ID, Reason: "a proposal that cannot be read"})
		return
	}
	n.vote()
	v := n.voter
	v.asked = n.now
	switch m.GetType() {
	case raftpb.MessageType_MsgApp, raftpb.MessageType_MsgHeartbeat, raftpb.MessageType_MsgSnap:
		if m.GetTerm() >= v.node.BasicStatus().GetTerm() { // else of one that leads no more
			v.heard, v.led = n.now, n.now
		}
	}
	if v.leads {
		v.answered[m.GetFrom()] = n.now
	}
	if _, known := n.peer(from.ID.Raft()); !known && len(n.others) < maxOthers {
		n.others[from.ID.Raft()] = from
	}
	v.call(func() { _ = v.node.Step(&m) }) // what does not fit is dropped, as a lost message is
	if votes(m.GetType()) {
		n.tellDecided(&m)
	}
}

// proposable reports whether another voter may put these entries into the log: such that all
// replicas can read. Changes of voters are the leader's own.
func proposable(list []*raftpb.Entry) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(e *raftpb.Entry) bool {
		_, err := coord.ParseEntry(e.GetData())
		return err != nil || e.GetType() != raftpb.EntryType_EntryNormal
	})
}

// maxOthers bounds whom a voter remembers that is in no view: two sets of voters.
const maxOthers = 16

// vote makes this agent a voter, the one that it was if it was one: a voter keeps what
// it has promised. One that was taken out and is only asked for its voice has heard of no leader by
// that: it goes back, see leave.
func (n *Node) vote() {
	switch {
	case n.voter != nil:
		return
	case n.past != nil:
		n.voter, n.past = n.past, nil
	default:
		n.voter = n.start(newcomer(n.cfg.Self.ID.Raft()))
		n.voter.led = n.now
	}
	n.voter.heard = n.now
}

// start takes a voter into use.
func (n *Node) start(v *voter) *voter {
	n.faults.apply(v)
	return v
}

// ready does what the group wants done, until it wants no more.
func (n *Node) ready() {
	v := n.voter
	for v != nil {
		rd, some := v.next()
		if !some {
			break
		}
		n.sendRaft(rd.Messages)
		if s := rd.Snapshot; s != nil && s.GetMetadata().GetIndex() > 0 {
			n.restore(s)
		}
		for _, e := range rd.CommittedEntries {
			if v.broken == "" {
				n.apply(e)
			}
		}
		v.call(func() { v.node.Advance(rd) })
		n.noteLeader()
	}
	if v == nil {
		return
	}
	v.compact()
	if v.broken != "" {
		n.broke()
		return
	}
	n.leave()
}

// keep stores what raft must find again.
func (v *voter) keep(rd raft.Ready) {
	if rd.Snapshot != nil && rd.Snapshot.GetMetadata().GetIndex() > 0 {
		if err := v.storage.ApplySnapshot(rd.Snapshot); err != nil && !errors.Is(err, raft.ErrSnapOutOfDate) {
			panic(err)
		}
		v.begin, v.sizes, v.bytes = rd.Snapshot.GetMetadata().GetIndex(), nil, 0
	}
	if rd.HardState != nil && !raft.IsEmptyHardState(rd.HardState) {
		_ = v.storage.SetHardState(rd.HardState) // memory takes it
	}
	if err := v.storage.Append(rd.Entries); err != nil {
		panic(err) // entries that raft made follow each other
	}
}

func (n *Node) sendRaft(messages []*raftpb.Message) {
	for _, m := range messages {
		peer, known := n.peer(m.GetTo())
		if !known {
			n.voter.node.ReportUnreachable(m.GetTo())
			continue
		}
		if votes(m.GetType()) {
			n.voter.sayDecided(m)
		}
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic(err) // every message of raft can be written
		}
		beat := m.GetType() == raftpb.MessageType_MsgHeartbeat || m.GetType() == raftpb.MessageType_MsgHeartbeatResp
		n.put(peer, &coord.Raft{Data: data}, beat)
		if m.GetType() == raftpb.MessageType_MsgSnap {
			n.voter.node.ReportSnapshot(m.GetTo(), raft.SnapshotFinish) // if it is lost, raft probes again
		}
	}
}

func (n *Node) apply(e *raftpb.Entry) {
	v := n.voter
	v.applied = e.GetIndex()
	v.sizes, v.bytes = append(v.sizes, len(e.GetData())), v.bytes+len(e.GetData())
	switch e.GetType() {
	case raftpb.EntryType_EntryConfChange, raftpb.EntryType_EntryConfChangeV2:
		var change raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &change); err != nil {
			v.broken = fmt.Sprintf("a change of voters at index %d: %v", e.GetIndex(), err)
			return
		}
		v.call(func() { v.config = v.node.ApplyConfChange(&change) })
		v.snapshot() // a newcomer takes none that does not name it
		return
	}
	if len(e.GetData()) == 0 {
		return // of a new leader
	}
	entry, err := coord.ParseEntry(e.GetData())
	if err != nil { // all replicas have these bytes, and none of them takes them
		n.event(Event{Kind: Dropped, Index: e.GetIndex(), Term: e.GetTerm(), Reason: "an entry that cannot be read: " + err.Error()})
		return
	}
	lanes := v.machine.View()
	all, some := false, []coord.ID(nil)
	for _, effect := range v.machine.Apply(e.GetIndex(), entry) {
		n.event(Event{Kind: Applied, Index: e.GetIndex(), Term: e.GetTerm(), Entry: entry, Effect: effect, Voters: v.config.GetVoters(), Outgoing: v.config.GetVotersOutgoing()})
		switch e := effect.(type) {
		case *coord.Installed:
			n.lead.installed(e)
			all = true
		case *coord.Extended, *coord.Redone, *coord.Closed:
			all = true
		case *coord.Outcome:
			some = append(some, e.Author)
		case *coord.Rebalanced:
			some = append(some, lanes.Owner(e.From), lanes.Owner(e.To))
		case *coord.Refused:
			n.lead.refuse(n, e)
		}
	}
	n.brief()
	n.spread(all, some)
}

func (n *Node) restore(s *raftpb.Snapshot) {
	v := n.voter
	v.applied, v.config = s.GetMetadata().GetIndex(), s.GetMetadata().GetConfState()
	if len(s.GetData()) > 0 {
		if err := v.machine.Restore(s.GetData()); err != nil {
			v.broken = fmt.Sprintf("the snapshot of index %d: %v", v.applied, err)
			return
		}
		n.brief()
		n.spread(true, nil)
	}
}

// snapshot makes what is applied the one that newcomers get.
func (v *voter) snapshot() {
	var data []byte
	if v.machine.Formed() {
		data = v.machine.Snapshot()
	}
	v.call(func() {
		if _, err := v.storage.CreateSnapshot(v.applied, v.config, data); err != nil && !errors.Is(err, raft.ErrSnapOutOfDate) {
			panic(err) // of an index that is applied and kept
		}
	})
}

// compact replaces old entries by a snapshot.
func (v *voter) compact() {
	if len(v.sizes) < compactEvery+keepEntries && v.bytes < compactBytes {
		return
	}
	v.snapshot()
	gone := 0
	for len(v.sizes)-gone > keepEntries || v.bytes > keepBytes {
		v.bytes -= v.sizes[gone]
		gone++
	}
	v.sizes = slices.Clone(v.sizes[gone:])
	v.begin += uint64(gone)
	v.call(func() {
		if err := v.storage.Compact(v.begin); err != nil {
			panic(err) // it is applied and kept
		}
	})
}

// noteLeader follows who leads.
func (n *Node) noteLeader() {
	v := n.voter
	status := v.node.BasicStatus()
	if status.Lead != v.leader && status.Lead != 0 {
		v.heard = n.now
	}
	v.leader = status.Lead
	if leads := status.RaftState == raft.StateLeader; leads != v.leads {
		v.leads = leads
		n.lead.reset()
		v.answered, v.since, v.led = map[uint64]time.Duration{}, n.now, n.now
		if leads {
			n.event(Event{Kind: Led, ID: n.cfg.Self.ID})
		}
	}
}

// supported reports whether a leader hears of a majority, in both sets of voters while they
// change.
func (n *Node) supported() bool {
	v, patience := n.voter, deafAfter*n.cfg.Beat
	if n.now-v.since < patience {
		return true
	}
	for _, set := range [][]uint64{v.config.GetVoters(), v.config.GetVotersOutgoing()} {
		here := 0
		for _, id := range set {
			if at, ok := v.answered[id]; id == n.cfg.Self.ID.Raft() || ok && n.now-at < patience {
				here++
			}
		}
		if len(set) > 0 && here <= len(set)/2 {
			return false
		}
	}
	return true
}

// leader is who leads with a majority, as far as this voter knows; zero: nobody.
func (n *Node) leader() coord.ID {
	v := n.voter
	if v.leads && !n.supported() || v.alone > n.now || !v.leads && n.now-v.led >= deafAfter*n.cfg.Beat {
		return coord.ID{}
	}
	p, _ := n.peer(v.leader)
	return p.ID
}

// leave ends this agent's part as a voter once the others have taken it out. It keeps log and
// promises: one that lags behind may still ask it for its voice, and it may become a voter again.
func (n *Node) leave() {
	v := n.voter
	if !v.machine.Formed() || v.leads || len(v.config.GetVoters()) == 0 || n.isVoter(n.cfg.Self.ID) {
		return
	}
	out := n.now-v.led >= deafAfter*n.cfg.Beat && n.known.Known.Index > v.applied // the last change of voters did not reach it
	if out || !v.has(n.cfg.Self.ID.Raft()) {
		n.voter, n.past = nil, v
		n.following.heard = max(n.following.heard, v.led)
	}
}

// propose puts an entry into the log, if there is a leader; if it gets lost it is
// proposed again by whoever wanted it. One that breaks a bound of the encoding stays out.
func (n *Node) propose(e coord.Entry) bool {
	v := n.voter
	if v == nil || !v.leads && !n.informed() {
		return false
	}
	data := coord.AppendEntry(nil, e)
	if _, err := coord.ParseEntry(data); err != nil {
		n.event(Event{Kind: Dropped, ID: n.cfg.Self.ID, Reason: "an entry of this agent that cannot be read: " + err.Error()})
		return false
	}
	err := raft.ErrProposalDropped
	v.call(func() { err = v.node.Propose(data) })
	return err == nil
}
