package sim

import (
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// gossip is a model of what each agent's memberlist holds of each other agent: who is
// out of reach, directly and through others, is dead after a while; who comes back refutes
// that. The times are those of real memberlist, which tells nobody whom it suspects.
//
// In worlds beyond mostPairs hosts it is told to voters, and of voters: nobody else acts
// on it.
type gossip struct {
	w     *World
	pairs map[pair]*opinion
	met   map[pair]bool     // who has heard of whom
	known map[*process]bool // subjects of whom someone holds something
	dirty bool
	reach []int // of each host: its part of the network; -1: it is out
}

type pair struct{ observer, subject coord.ID }

// opinion is what an observer holds of a subject.
type opinion struct {
	reachable bool
	state     group.Liveness
	turn      int // what was planned in an older one is void
	doubted   time.Duration
}

const mostPairs = 64

func (g *gossip) init(w *World) {
	g.w, g.pairs, g.met, g.known = w, map[pair]*opinion{}, map[pair]bool{}, map[*process]bool{}
}

// changed says that someone may have come into reach or left it.
func (g *gossip) changed() {
	if !g.dirty {
		g.dirty = true
		g.w.after(0, g.update)
	}
}

// came is a new process. It and the others hear of each other within a while; who has
// never heard of one that ends does not hear of its end either.
func (g *gossip) came(p *process) {
	g.changed()
	for _, h := range g.w.hosts {
		if o := h.proc; o != nil && o != p && !o.dead && len(g.w.hosts) <= mostPairs {
			g.meet(o, p, g.draw(o, p, 0, meets))
			g.meet(p, o, g.draw(p, o, 0, meets))
		}
	}
}

// meets is how long that takes at most, where nothing gets lost.
const meets = 2 * time.Second

func (g *gossip) meet(o, s *process, d time.Duration) {
	g.w.after(d, func() {
		switch {
		case o.dead || s.dead:
		case o.stopped || !g.reaches(o, s):
			g.meet(o, s, time.Second)
		default:
			g.met[pair{o.id, s.id}] = true
			o.node.Observe(o.local(), s.source(), group.Alive)
			o.flush()
		}
	})
}

// matters reports whether what an observer holds of a subject is followed.
func (g *gossip) matters(o, s *process) bool {
	return len(g.w.hosts) <= mostPairs || o.votes || s.votes
}

func (g *gossip) update() {
	g.dirty = false
	g.components()
	for _, s := range g.w.order {
		if s.dead && g.w.now-s.died > time.Minute {
			continue // settled long ago
		}
		if !g.known[s] && !s.dead && !s.stopped && len(g.w.net.rules) == 0 {
			continue // all is well with it
		}
		for _, h := range g.w.hosts {
			if o := h.proc; o != nil && !o.dead && o != s && g.matters(o, s) {
				g.follow(o, s)
			}
		}
	}
}

// follow plans what an observer comes to hold of a subject.
func (g *gossip) follow(o, s *process) {
	at := pair{o.id, s.id}
	op := g.pairs[at]
	reachable := g.reaches(o, s)
	if op == nil {
		if reachable || !g.met[at] && len(g.w.hosts) <= mostPairs {
			return // nothing is remarkable about it
		}
		op = &opinion{reachable: true}
		g.pairs[at], g.known[s] = op, true
	}
	if op.reachable == reachable {
		return
	}
	op.reachable = reachable
	op.turn++
	times := g.times()
	if !reachable {
		first := times.dead + g.draw(s, s, op.turn, times.deadMost-times.dead)
		g.plan(o, s, op, group.Dead, first+g.draw(o, s, op.turn+1000, times.spread))
		return
	}
	if op.state == group.Dead {
		g.plan(o, s, op, group.Alive, soonest+g.draw(o, s, op.turn, times.rejoin-soonest))
	}
}

// soonest is when a node that comes back is heard of.
const soonest = 300 * time.Millisecond

func (g *gossip) times() detection { return g.w.sc.Profile.detection(len(g.w.hosts)) }

// draw is a time that depends on who it is about, and on nothing else that happens.
func (g *gossip) draw(o, s *process, turn int, most time.Duration) time.Duration {
	h := g.w.sc.Seed ^ o.id.Raft()*0x9e3779b97f4a7c15 ^ s.id.Raft()*0xc2b2ae3d27d4eb4f ^ uint64(turn)*0x165667b19e3779f9
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return time.Duration(h % uint64(max(1, most)))
}

func (g *gossip) plan(o, s *process, op *opinion, state group.Liveness, d time.Duration) {
	turn := op.turn
	var come func()
	come = func() {
		switch {
		case o.dead || op.turn != turn || op.state == state:
		case o.stopped:
			g.w.after(50*time.Millisecond, come)
		case state != group.Alive || g.w.now >= op.doubted:
			g.tell(o, s, op, state)
		}
	}
	g.w.after(d, come)
}

func (g *gossip) tell(o, s *process, op *opinion, state group.Liveness) {
	op.state = state
	g.w.note('g', o.place, s.place, []byte{byte(state)})
	if g.w.trace != nil {
		g.w.say(o.place, "gossip: %v on %d is %v", short(s.id), s.place, [...]string{"alive", "dead"}[state])
	}
	o.node.Observe(o.local(), s.source(), state)
	o.flush()
}

// doubt has an observer hold a subject for dead that is not. One that it has not heard of it does
// not doubt.
func (g *gossip) doubt(o, s *process, d time.Duration) {
	at := pair{o.id, s.id}
	if !g.met[at] && len(g.w.hosts) <= mostPairs {
		return
	}
	op := g.pairs[at]
	if op == nil {
		op = &opinion{reachable: true}
		g.pairs[at], g.known[s] = op, true
	}
	op.doubted = g.w.now + d
	g.tell(o, s, op, group.Dead)
	g.w.after(d, func() {
		if !o.dead && op.reachable && op.state != group.Alive {
			g.tell(o, s, op, group.Alive)
		}
	})
}

// woke is an observer that stood still: its probes have timed out, so it holds others for
// lost until they refute it.
func (g *gossip) woke(o *process, stood time.Duration) {
	if stood < g.times().probe || o.rand.IntN(2) == 0 || len(g.w.hosts) > mostPairs {
		return
	}
	for _, h := range g.w.hosts {
		if s := h.proc; s != nil && !s.dead && s != o && o.rand.IntN(3) > 0 {
			g.doubt(o, s, 100*time.Millisecond+time.Duration(o.rand.Int64N(int64(2*time.Second))))
		}
	}
}

// stamps exchanges what is newest with another host at random, as relayed gossip does.
func (g *gossip) stamps(p *process) {
	o := g.w.hosts[p.rand.IntN(len(g.w.hosts))].proc
	if o == nil || o == p || o.dead || o.stopped || g.w.net.blocked(p.place, o.place) {
		return
	}
	o.node.Hear(o.local(), p.node.Stamp())
}

func (g *gossip) up(place int) bool {
	p := g.w.hosts[place].proc
	return p != nil && !p.dead && !p.stopped
}

func (g *gossip) reaches(o, s *process) bool {
	if s.dead || s.stopped || g.w.hosts[s.place].proc != s {
		return false
	}
	if o.stopped {
		return true // it notices when it goes on
	}
	return g.reach[o.place] >= 0 && g.reach[o.place] == g.reach[s.place]
}

// components finds the parts of the network whose hosts reach each other, through
// others if need be.
func (g *gossip) components() {
	n := len(g.w.hosts)
	g.reach = make([]int, n)
	if len(g.w.net.rules) == 0 || n > mostPairs {
		g.groups()
		return
	}
	to := make([][]bool, n) // from, to
	for i := range n {
		to[i] = make([]bool, n)
		if g.up(i) {
			g.search(i, to[i])
		}
	}
	for i := range n {
		g.reach[i] = -1
		for k := 0; k <= i && g.reach[i] < 0; k++ {
			if to[i][k] && to[k][i] {
				g.reach[i] = k
			}
		}
	}
}

func (g *gossip) search(i int, seen []bool) {
	seen[i] = true
	for k := range seen {
		if !seen[k] && g.up(k) && !g.w.net.blocked(i, k) {
			g.search(k, seen)
		}
	}
}

// groups is components where only partitions count.
func (g *gossip) groups() {
	for i := range g.reach {
		g.reach[i] = -1
		if g.up(i) {
			g.reach[i] = 0
			for k, r := range g.w.net.rules {
				if !r.off && r.group != nil && r.group(i) {
					g.reach[i] |= 1 << (k % 60)
				}
			}
		}
	}
}
