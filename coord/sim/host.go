package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// host is where an agent and its ranks run. It outlives them: what starts there again is
// another process.
type host struct {
	w       *World
	place   int
	address string
	ranks   []int
	joins   bool // it was not there at the begin
	boots   int
	rand    *rand.Rand
	proc    *process // the newest; nil: none was started
	gone    bool     // nothing starts here any more

	// The host's monotonic clock.
	rate  float64
	base  time.Duration // what it said at since
	since time.Duration
}

// local is what the host's clock says.
func (h *host) local() time.Duration {
	return h.base + time.Duration(float64(h.w.now-h.since)*h.rate)
}

// drift changes how fast the clock runs.
func (h *host) drift(rate float64) {
	h.base, h.since, h.rate = h.local(), h.w.now, rate
}

// jump has the clock go on by so much at once, for the agent and for its gossip: all that it
// waited for is due, and nobody had the time to answer. A ticker tells of it at once, or what
// comes first is a message.
func (p *process) jump(d time.Duration) {
	p.base += d
	p.w.say(p.place, "the clock jumps by %v", d)
	p.w.gossip.woke(p, d)
	if p.dead || p.stopped || p.rand.IntN(2) == 0 {
		return
	}
	p.node.Tick(p.local())
	p.flush()
}

func address(place int) string {
	return fmt.Sprintf("10.%d.%d.%d:7946", place>>16, place>>8&255, place&255)
}

// process is an agent with its ranks, from start to end.
type process struct {
	*host
	id      coord.ID
	node    *group.Node
	began   time.Duration
	dead    bool
	died    time.Duration
	stopped bool
	inbox   [][]byte // while it is stopped
	fuse    int      // how many messages it still sends; -1: all
	leaves  bool
	foreign string // why it must be refused; empty: it belongs here
	refused string
	ended   string
	until   time.Duration // it lingers at most, when it has ended
	work    worker
	flushes bool

	view    uint64 // newest view that it knows
	epoch   int64
	turn    uint64
	known   coord.Stamp
	applied uint64 // index of the last entry that it applied
	effect  int    // how many effects of it
	votes   bool
	ticks   int
	worked  time.Duration
	hangs   bool // its ranks do nothing more
}

// forever is longer than any run.
const forever = time.Duration(math.MaxInt64)

// source is what gossip tells of a process.
func (p *process) source() coord.Source { return coord.Source{ID: p.id, Address: p.address} }

// worker is the trainer's side of a process.
type worker interface {
	poll()               // something may have changed
	event(*group.Event)  // of its agent
	stall(time.Duration) // pull nothing until then
	lose(local int)      // a local rank ends
	back(local int)      // and comes again
}

func (h *host) newID(boots int) (id coord.ID) {
	r := rand.New(rand.NewPCG(h.w.sc.Seed^0x1d, uint64(h.place)<<20|uint64(boots)))
	binary.BigEndian.PutUint64(id[:], r.Uint64()|1)
	binary.BigEndian.PutUint64(id[8:], r.Uint64())
	return id
}

func (h *host) member(id coord.ID) coord.Member {
	return coord.Member{ID: id, Name: fmt.Sprintf("n%d.%d", h.place, h.boots), Rack: fmt.Sprintf("r%d", h.place/h.w.sc.Rack), Address: h.address, Ranks: h.ranks}
}

// start starts a process. Form is the first view for the one that forms the job.
func (h *host) start(form []coord.Member, change func(*group.Config)) *process {
	h.boots++
	p := &process{host: h, id: h.newID(h.boots), began: h.w.now, fuse: -1}
	cfg := h.w.sc.Profile.config()
	cfg.Job, cfg.Share = h.w.sc.Job, h.w.views.of
	cfg.Self = coord.Admission{Member: h.member(p.id), Version: coord.Version, Job: cfg.Job.Name, Plan: cfg.Job.Plan}
	if form != nil {
		cfg.Form = form
	} else {
		cfg.Contacts = h.contacts()
	}
	if change != nil {
		change(&cfg)
		p.id = cfg.Self.ID
	}
	n, err := group.New(cfg, h.local())
	if err != nil {
		h.w.violate("config", h.place, "%v", err)
		return nil
	}
	h.w.breakNode(n)
	p.node = n
	h.proc = p
	h.w.procs[p.id] = p
	h.w.order = append(h.w.order, p)
	h.w.say(h.place, "start %v, %d ranks", short(p.id), len(h.ranks))
	h.w.note('b', h.place, h.boots, p.id[:])
	if form != nil {
		h.w.log.quorums.found(p)
	}
	h.w.gossip.came(p)
	p.work = h.w.newWorker(p)
	h.w.after(time.Duration(h.rand.Int64N(int64(cfg.Beat))), func() { p.tick(cfg.Beat) })
	return p
}

// contacts are some of the other hosts: the one where the job was formed, as a rendezvous
// tells, and others, as gossip knows them.
func (h *host) contacts() (list []string) {
	n := len(h.w.hosts)
	for i := range min(n, 8) {
		place := i
		if n > 8 && i > 0 {
			place = h.rand.IntN(n)
		}
		if place != h.place {
			list = append(list, address(place))
		}
	}
	if len(list) == 0 {
		list = append(list, address((h.place+1)%max(2, n)))
	}
	return list
}

// tick lets the agent's time pass, every beat of its clock.
func (p *process) tick(beat time.Duration) {
	if p.dead {
		return
	}
	p.w.after(time.Duration(float64(beat)/p.rate), func() { p.tick(beat) })
	if p.stopped {
		return
	}
	p.w.gossip.stamps(p)
	p.node.Tick(p.local())
	p.ticks++
	p.flush()
}

// receive takes a message, or keeps it while the process is stopped.
func (p *process) receive(data []byte) {
	switch {
	case p.dead:
	case p.stopped:
		if len(p.inbox) < mostWaiting {
			p.inbox = append(p.inbox, data)
		}
	default:
		p.node.Receive(p.local(), data)
		p.flush()
	}
}

// mostWaiting is what sockets hold of messages that nobody reads.
const mostWaiting = 4096

// stop stands still for a while. Then messages come at once, before the first tick or
// behind it.
func (p *process) stop(d time.Duration) {
	if p.dead || p.stopped {
		return
	}
	p.stopped = true
	p.w.note('z', p.place, p.boots, nil)
	p.w.say(p.place, "stopped for %v", d)
	p.w.picture.span(p.w.now, p.w.now+d, p.place, "stopped")
	p.w.gossip.changed()
	p.w.after(d, func() {
		if p.dead {
			return
		}
		p.stopped = false
		p.w.say(p.place, "goes on with %d messages", len(p.inbox))
		p.w.gossip.woke(p, d)
		p.w.gossip.changed()
		if p.rand.IntN(2) == 0 {
			p.node.Tick(p.local())
			p.flush()
		}
		inbox := p.inbox
		p.inbox = nil
		for _, data := range inbox {
			p.receive(data)
		}
		if !p.dead {
			p.flush()
		}
	})
}

// wake has the ranks look again at a time.
func (p *process) wake(at time.Duration) {
	p.w.after(at-p.w.now, func() {
		if !p.dead && !p.stopped {
			p.flush()
		}
	})
}

// die ends the process at once.
func (p *process) die(why string) {
	if p.dead {
		return
	}
	p.dead, p.died, p.inbox = true, p.w.now, nil
	p.w.note('x', p.place, p.boots, nil)
	p.w.say(p.place, "dead: %s", why)
	p.w.gossip.changed()
	p.w.lost(p)
}

// flush carries out what the agent wants: events to the monitors, messages to the
// network, and the ranks see the newest state.
func (p *process) flush() {
	if p.flushes {
		return // the one that is under way goes on
	}
	p.flushes = true
	for first, more := true, true; (first || more) && !p.dead; first = false {
		more = p.carryOut()
		if !p.dead {
			p.work.poll()
		}
	}
	if !p.dead {
		p.w.checkState(p)
	}
	p.flushes = false
	switch {
	case p.dead:
	case p.leaves && p.node.Left():
		p.die("left")
	case p.ended != "":
		p.finish()
	}
}

// carryOut is one round of flush. It reports whether there was anything.
func (p *process) carryOut() (some bool) {
	for _, e := range p.node.Events() {
		some = true
		p.w.watch(p, &e)
	}
	out := p.node.Outbox()
	p.w.outbox(p, out)
	for _, s := range out {
		some = true
		if p.fuse == 0 {
			p.die("killed between two messages")
			break
		}
		if p.fuse > 0 {
			p.fuse--
		}
		p.w.send(p, &s)
	}
	return some
}

// finish ends a process whose part is over. One that was evicted comes again as
// another member.
func (p *process) finish() {
	if p.until == 0 {
		p.until = p.w.now + mostLinger
	}
	if p.node.Lingers() && p.w.now < p.until {
		return // the others may need its voice to replace it
	}
	p.die(p.ended)
	if p.refused != "" || p.leaves || p.gone {
		return
	}
	p.w.after(500*time.Millisecond+time.Duration(p.rand.Int64N(int64(1500*time.Millisecond))), func() { p.again() })
}

// mostLinger is how long an agent that was evicted, or leaves, still votes.
const mostLinger = 5 * time.Second

// again starts another process where the last one has ended.
func (h *host) again() {
	if h.proc.dead && !h.gone {
		h.start(nil, nil)
	}
}

func short(id coord.ID) string { return id.String()[:6] }
