package agent

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

const (
	// joinSoon is how soon the contacts are tried again while none of them answers; from
	// joinTries on it is rejoinEvery.
	joinSoon  = 500 * time.Millisecond
	joinTries = 40
	// joinAgain is how soon a second join follows the first: it halves the time until
	// hundreds of nodes know each other.
	joinAgain = 1500 * time.Millisecond
	// rejoinEvery heals partitions, which gossip by itself never does.
	rejoinEvery = 7 * time.Second
	// joinSome is how many of the contacts are tried at a time: each one that answers sends all
	// that it knows.
	joinSome = 4
	// rejoinSome is how many of those that were there are tried.
	rejoinSome = 3
	// rememberLost bounds who is tried again.
	rememberLost = 1024
)

// seen is what gossip says of an agent.
type seen struct {
	id      coord.ID
	address string // where gossip finds it
	state   group.Liveness
	meta
}

// noted is what an agent tells of itself when that is another thing than before.
type noted struct {
	id coord.ID
	meta
}

// meta is what an agent tells all of itself. That it goes is told here: memberlist tells its
// delegates of a leave and of a death alike.
type meta struct {
	gone bool // it leaves
	note []byte
}

func (m meta) bytes() []byte {
	if m.gone {
		return append([]byte{1}, m.note...)
	}
	return append([]byte{0}, m.note...)
}

func parseMeta(b []byte) (m meta) {
	if len(b) > 0 {
		m = meta{b[0] == 1, slices.Clone(b[1:])}
	}
	return m
}

// gossip is one member of memberlist. Its callbacks only put into the queue. It has two
// goroutines, which close ends.
type gossip struct {
	list     *memberlist.Memberlist
	contacts []string
	stop     chan struct{}
	hangUp   context.CancelFunc // ends the streams that it has opened
	done     sync.WaitGroup
	news     chan struct{} // the note is another one; holds one
	told     chan struct{} // closed when no note is told any more

	mu struct {
		sync.Mutex
		own   meta
		lost  map[string]string // name to address, of those that were there and are not
		stamp coord.Stamp       // the newest that was told: of the agent's job, once it has one
		job   uint64            // who has formed that; 0: it has none yet
		queue *memberlist.TransmitLimitedQueue
	}
}

// gossipConfig is memberlist's, with the settings of facts that were measured.
func gossipConfig(c *Config, id coord.ID, transport memberlist.Transport, drops *drops) (*memberlist.Config, error) {
	m := memberlist.DefaultLANConfig()
	m.Name = id.String()
	m.Label = label(c.Job)
	m.Transport = transport
	m.TCPTimeout = dialTimeout // each contact that does not answer keeps the next one waiting
	m.LogOutput, m.Logger = complaints{drops}, nil
	m.EnableCompression = false
	m.GossipInterval, m.GossipNodes = 100*time.Millisecond, 4
	m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult = 500*time.Millisecond, 250*time.Millisecond, 4
	m.PushPullInterval, m.GossipToTheDeadTime = 15*time.Second, time.Minute
	if c.Profile == "fast" {
		m.GossipInterval, m.GossipNodes = 50*time.Millisecond, 5
		m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult = 150*time.Millisecond, 75*time.Millisecond, 3
	}
	if len(c.Key) > 0 {
		key, err := hkdf.Key(sha256.New, c.Key, nil, "headrace/gossip/1", 32)
		if err != nil {
			return nil, nd.Errorf(nd.ErrBug, "key of gossip: %w", err)
		}
		m.SecretKey = key
	}
	return m, nil
}

// label separates jobs whose packets meet. It is a hash, for it is limited and in the clear.
func label(job string) string {
	h := sha256.Sum256([]byte("headrace/label/1 " + job))
	return string(h[:16])
}

// startGossip begins to gossip, and to join the contacts.
func startGossip(c *Config, id coord.ID, address string, transport memberlist.Transport, contacts []string, drops *drops, tell func(any), hear func(coord.Stamp)) (g *gossip, err error) {
	ctx, hangUp := context.WithCancel(context.Background())
	defer func() {
		if g == nil {
			hangUp()
		}
	}()
	m, err := gossipConfig(c, id, until{transport, ctx}, drops)
	if err != nil {
		return nil, err
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	m.BindAddr, m.BindPort = host, port
	m.AdvertiseAddr, m.AdvertisePort = host, port
	g = &gossip{contacts: contacts, stop: make(chan struct{}), hangUp: hangUp, news: make(chan struct{}, 1), told: make(chan struct{})}
	g.mu.lost = map[string]string{}
	m.Events = events{g, m.Name, tell}
	m.Delegate = stamps{g, hear, drops}
	list, err := memberlist.Create(m)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "gossip at %s: %w", address, err)
	}
	g.list = list
	g.mu.Lock()
	g.mu.queue = &memberlist.TransmitLimitedQueue{NumNodes: list.NumMembers, RetransmitMult: 4}
	g.mu.Unlock()
	g.done.Go(g.join)
	g.done.Go(g.spreadNotes)
	return g, nil
}

func splitAddress(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, nd.Errorf(nd.ErrConfig, "address %q: host:port is wanted", address)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, nd.Errorf(nd.ErrConfig, "address %q: its port is no number", address)
	}
	return host, port, nil
}

// join joins the contacts, soon once more, and then again and again, with some of those
// that were lost. A contact may begin later than this agent.
func (g *gossip) join() {
	wait := joinAgain
	for try := 0; ; try++ {
		list, n := g.targets(), 0
		if len(list) > 0 {
			n, _ = g.list.Join(list) // who is not there now is tried again
		}
		pause := wait
		if n == 0 && len(list) > 0 && try < joinTries {
			pause = joinSoon
		} else {
			wait = rejoinEvery
		}
		select {
		case <-time.After(pause):
		case <-g.stop:
			return
		}
	}
}

// tell has a note told to all.
func (g *gossip) tell(note []byte) {
	g.mu.Lock()
	g.mu.own.note = note
	g.mu.Unlock()
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// noteBound is how long a note may take to be on its way.
const noteBound = time.Second

func (g *gossip) spreadNotes() {
	defer close(g.told)
	for {
		select {
		case <-g.news:
			_ = g.list.UpdateNode(noteBound) // it goes on being told after that
		case <-g.stop:
			return
		}
	}
}

// targets are some of the contacts, and some of the lost.
func (g *gossip) targets() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(draw(g.contacts, joinSome), draw(slices.Collect(maps.Values(g.mu.lost)), rejoinSome)...)
}

// draw is some of a list, each time others.
func draw(list []string, most int) []string {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(most, len(list))]
}

// spread has a stamp of the agent's own told to all, if it is the newest.
func (g *gossip) spread(s coord.Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Founder != 0 && s.Founder != g.mu.job {
		g.mu.job, g.mu.stamp = s.Founder, coord.Stamp{}
	}
	g.tellStampLocked(s)
}

// relay has a stamp that has come told again, if it is the newest. It is false where that is
// another job's.
func (g *gossip) relay(s coord.Stamp) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.job != 0 && s.Founder != g.mu.job {
		return false
	}
	g.tellStampLocked(s)
	return true
}

func (g *gossip) tellStampLocked(s coord.Stamp) {
	if s.Newer(g.mu.stamp) && g.mu.queue != nil {
		g.mu.stamp = s
		g.mu.queue.QueueBroadcast(stampOnWire(stampBytes(s)))
	}
}

// close leaves, and returns when nothing runs any more.
func (g *gossip) close(within time.Duration) {
	close(g.stop)
	g.hangUp()
	<-g.told // the leave takes the place of what is not told yet
	g.mu.Lock()
	g.mu.own.gone = true
	g.mu.Unlock()
	_ = g.list.UpdateNode(noteBound)
	_ = g.list.Leave(within) // those who do not hear of it find out
	_ = g.list.Shutdown()
	g.done.Wait()
}

// crash ends without a word, for tests and for an agent that is another member now.
func (g *gossip) crash() {
	g.drop()
	g.done.Wait()
}

// drop is crash without the wait for its goroutines.
func (g *gossip) drop() {
	close(g.stop)
	g.hangUp()
	_ = g.list.Shutdown()
}

// events are memberlist's callbacks. They run under its lock: no call back into it.
type events struct {
	g    *gossip
	self string
	tell func(any) // seen, noted
}

func (e events) NotifyJoin(n *memberlist.Node) { e.note(n, group.Alive) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.note(n, group.Dead)
}

func (e events) NotifyUpdate(n *memberlist.Node) {
	if id, err := coord.ParseID(n.Name); err == nil && n.Name != e.self {
		e.tell(noted{id, parseMeta(n.Meta)})
	}
}

func (e events) note(n *memberlist.Node, state group.Liveness) {
	id, err := coord.ParseID(n.Name)
	if err != nil || n.Name == e.self {
		return
	}
	m := parseMeta(n.Meta)
	e.g.mu.Lock()
	if state == group.Alive || m.gone {
		delete(e.g.mu.lost, n.Name)
	} else if len(e.g.mu.lost) < rememberLost {
		e.g.mu.lost[n.Name] = n.Address()
	}
	e.g.mu.Unlock()
	e.tell(seen{id, n.Address(), state, m})
}

// stamps spread the newest place in the log: memberlist does not pass broadcasts on, so
// who hears a newer one tells it again.
type stamps struct {
	g     *gossip
	hear  func(coord.Stamp)
	drops *drops
}

// stampOnWire is a stamp under way; a newer one replaces it.
type stampOnWire []byte

func (stampOnWire) Invalidates(memberlist.Broadcast) bool { return true }
func (s stampOnWire) Message() []byte                     { return s }
func (stampOnWire) Finished()                             {}

func stampBytes(s coord.Stamp) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, stampSize), s.Founder)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.View), s.Index)
}

// stampSize is that of a stamp under way, in bytes.
const stampSize = 24

func (s stamps) NotifyMsg(b []byte) {
	if len(b) != stampSize {
		return
	}
	stamp := coord.Stamp{Founder: binary.BigEndian.Uint64(b), View: binary.BigEndian.Uint64(b[8:]), Index: binary.BigEndian.Uint64(b[16:])}
	if !s.g.relay(stamp) {
		s.drops.add(dropOtherRun)
		return
	}
	s.hear(stamp)
}

func (s stamps) GetBroadcasts(overhead, limit int) [][]byte {
	s.g.mu.Lock()
	q := s.g.mu.queue
	s.g.mu.Unlock()
	if q == nil {
		return nil
	}
	return q.GetBroadcasts(overhead, limit)
}

// NodeMeta is what this agent tells of itself.
func (s stamps) NodeMeta(int) []byte {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return s.g.mu.own.bytes()
}

func (stamps) LocalState(bool) []byte        { return nil }
func (stamps) MergeRemoteState([]byte, bool) {}
