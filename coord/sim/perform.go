package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// find is the process that a target means now, nil if there is none.
func (w *World) find(t Target) *process {
	if !slices.Contains(roles(), t) {
		place := 0
		for _, c := range t {
			place = place*10 + int(c-'0')
		}
		if place >= len(w.hosts) || w.hosts[place].proc == nil || w.hosts[place].proc.dead {
			return nil
		}
		return w.hosts[place].proc
	}
	var found []*process
	for _, p := range w.live() {
		s := p.node.State()
		is := false
		switch t {
		case "leader":
			is = s.Leads
		case "voter":
			is = s.Votes && !s.Leads
		case "follower":
			is = !s.Votes
		case "rank0":
			is = s.View != nil && s.View.World() > 0 && s.View.Owner(0) == p.id
		}
		if is {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[w.rand.IntN(len(found))]
}

// perform carries a fault out. One whose target is not there does nothing.
func (w *World) perform(a *Action) {
	w.say(-1, "%v", *a)
	w.result.Faults++
	who, other := w.find(a.Who), w.find(a.Other)
	switch a.Kind {
	case Partition:
		w.net.add(partition(func(place int) bool { return slices.Contains(a.Set, place) }), a.For)
	case Rack:
		w.rack(a)
	case Split:
		w.split(a)
	case Noise:
		w.noise(a)
	case Join:
		for range a.N {
			w.join(1+w.rand.IntN(3), nil)
		}
	case Alien:
		w.alien(a)
	case Redo:
		w.steps.back(int64(a.N))
	case Cut, Flap, Doubt:
		if who != nil && other != nil && who != other {
			w.pairwise(a, who, other)
		}
	default:
		if who != nil {
			w.single(a, who)
		}
	}
}

func (w *World) single(a *Action, p *process) {
	switch a.Kind {
	case Kill:
		w.kill(p, a.N, a.By)
	case Stop:
		p.stop(a.For)
	case Slow:
		w.net.slow[p.place] += a.By
		w.picture.span(w.now, w.now+a.For, p.place, "slow")
		w.after(a.For, func() { w.net.slow[p.place] -= a.By })
	case Leave:
		w.leave(p, a.By)
	case Twin:
		w.twin(p)
	case Stall:
		p.work.stall(w.now + a.For)
		w.picture.span(w.now, w.now+a.For, p.place, "stalled")
	case Hang:
		if w.sc.Job.Mode == coord.Async { // others can do its work
			p.hangs = true
			p.work.stall(forever)
			w.picture.span(w.now, forever, p.place, "stalled")
		}
	case Rank:
		p.work.lose(a.N)
		w.after(a.For, func() {
			if !p.dead {
				p.work.back(a.N)
				p.flush()
			}
		})
		p.flush()
	case Drift:
		p.drift(float64(1000+a.N) / 1000)
	case Jump:
		p.jump(a.By)
	}
}

func (w *World) pairwise(a *Action, who, other *process) {
	from, to := who.place, other.place
	link := &rule{ends: []int{from, to}, blocks: func(x, y int) bool { return x == from && y == to || a.N == 2 && x == to && y == from }}
	switch a.Kind {
	case Doubt:
		w.gossip.doubt(who, other, a.For)
	case Cut:
		w.net.add(link, a.For)
	case Flap:
		w.net.add(link, a.For)
		var turn func()
		turn = func() {
			if link.blocks != nil {
				link.off = !link.off
				w.gossip.changed()
				w.after(a.By, turn)
			}
		}
		w.after(a.By, turn)
	}
}

// kill ends a process, after some more messages; later another one starts there.
func (w *World) kill(p *process, messages int, back time.Duration) {
	if messages > 0 {
		p.fuse = messages
		w.after(time.Second, func() { p.die("killed") }) // if it sends no more
	} else {
		p.die("killed")
	}
	if back > 0 {
		w.after(back+time.Second, p.again)
	} else {
		p.gone = true
	}
}

// leave has a process leave: it goes once the others decide without it, or after a while.
func (w *World) leave(p *process, back time.Duration) {
	p.leaves = true
	p.node.Leave(p.local())
	w.after(mostLinger, func() { p.die("left, and it was not agreed") })
	p.flush()
	if back > 0 {
		w.after(back+7*time.Second, func() { p.again() })
	} else {
		p.gone = true
	}
}

// join adds a host and starts an agent there.
func (w *World) join(ranks int, change func(*group.Config)) *process {
	h := w.newHost(ranks)
	h.joins = true
	w.gossip.changed()
	return h.start(nil, change)
}

// twin is an agent that has the raft number of a member, and must be refused while that is one.
func (w *World) twin(p *process) {
	if !slices.ContainsFunc(w.log.plain.members, func(m coord.Member) bool { return m.ID == p.id }) {
		return
	}
	t := w.join(1, func(c *group.Config) { copy(c.Self.ID[:8], p.id[:8]) })
	t.foreign, t.gone = "another one's number", true
	var watch func()
	watch = func() {
		if p.dead {
			t.die("its twin is dead")
			return
		}
		w.after(10*time.Millisecond, watch)
	}
	watch()
}

// alien says what is foreign.
const alien = "another version, plan or job"

// alien is an agent that means another job, and must be refused.
func (w *World) alien(a *Action) {
	h := w.newHost(1)
	h.joins = true
	h.gone = true
	p := h.start(nil, func(c *group.Config) {
		switch a.N {
		case 0:
			c.Self.Version = coord.Version + 1
		case 1:
			c.Self.Plan = "another"
		default:
			c.Self.Job = "another"
		}
	})
	p.foreign = alien
}

func (w *World) rack(a *Action) {
	racks := (len(w.hosts) + w.sc.Rack - 1) / w.sc.Rack
	rack := w.rand.IntN(racks)
	inside := func(place int) bool { return place/w.sc.Rack == rack }
	if a.N == 0 {
		w.net.add(partition(inside), a.For)
		return
	}
	for _, p := range w.live() {
		if inside(p.place) {
			w.kill(p, 0, a.By)
		}
	}
}

// split cuts half of the voters off, with as many of the others.
func (w *World) split(a *Action) {
	set := map[int]bool{} // looked up only
	voters, others := 0, 0
	for _, p := range w.live() {
		n := &others
		if p.node.State().Votes {
			n = &voters
		}
		if *n++; *n%2 == 1 {
			set[p.place] = true
		}
	}
	w.net.add(partition(func(place int) bool { return set[place] }), a.For)
}

// noise is a bad network, by per cent.
func (w *World) noise(a *Action) {
	share := float64(a.N) / 100
	x := Network{Loss: share, Double: share, Reorder: share, Corrupt: share / 2}
	w.net.noise = append(w.net.noise, x)
	w.after(a.For, func() {
		if i := slices.Index(w.net.noise, x); i >= 0 {
			w.net.noise = slices.Delete(w.net.noise, i, i+1)
		}
	})
}
