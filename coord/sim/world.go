package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/coord"
)

// World is one run of a scenario: hosts, what is between them, and who watches. It is one
// thread, and time is a number.
type World struct {
	sc     Scenario
	now    time.Duration
	queue  queue
	hosts  []*host
	procs  map[coord.ID]*process // by identity, the dead ones too
	order  []*process            // as they started
	net    network
	gossip gossip
	log    logbook
	recent recent
	steps  *collectives      // lockstep
	done   map[int64][]uint8 // async: how often each position of an epoch was accepted by its rank
	rand   *rand.Rand
	views  shared

	ending   <-chan struct{} // Watch.Done
	trace    io.Writer       // nil: none
	digest   [2]uint64
	picture  *Picture // nil: none is drawn
	result   Result
	lastEnd  time.Duration // when the last fault is over
	leaving  []pending
	watching bool
	epochs   int64         // closed
	stopped  time.Duration // when a majority was found to be lost; 0: it is not
}

// pending is a member that was lost, and may still be in someone's view.
type pending struct {
	id     coord.ID
	at     time.Duration
	caused int // Result.Caused then
}

// Watch is who looks on while a scenario runs. It changes nothing.
type Watch struct {
	Trace   io.Writer // gets a line for whatever happens; nil: none
	Picture *Picture  // nil: none
	// Done, closed, ends the run early: its result is nil. A nil one does not.
	Done <-chan struct{}
}

// checkEvery is how many events there are between two looks at Watch.Done.
const checkEvery = 256

// Run carries a scenario out, up to the first violation.
func Run(sc Scenario, watch Watch) *Result { return newWorld(sc, watch).run() }

func newWorld(sc Scenario, watch Watch) *World {
	w := &World{sc: sc, ending: watch.Done, trace: watch.Trace, picture: watch.Picture, procs: map[coord.ID]*process{}, done: map[int64][]uint8{}, rand: rand.New(rand.NewPCG(sc.Seed, 1))}
	w.result.Seed = sc.Seed
	w.views = shared{}
	w.net.init(w)
	w.gossip.init(w)
	w.log.init(w)
	w.steps = newCollectives(w)
	for i := range sc.Actions {
		w.lastEnd = max(w.lastEnd, sc.Actions[i].end())
	}
	return w
}

// at plans something for a time.
func (w *World) after(d time.Duration, do func()) { w.queue.push(w.now+d, do) }

func (w *World) run() *Result {
	w.begin()
	for i := range w.sc.Actions {
		a := &w.sc.Actions[i]
		w.after(a.At, func() { w.perform(a) })
	}
	end := w.lastEnd + w.sc.Duration
	w.queue.push(w.lastEnd+time.Second, w.settle)
	for len(w.queue.heap) > 0 && !w.result.ended && len(w.result.Violations) == 0 {
		e := w.queue.pop()
		if e.at > end {
			break
		}
		w.now = e.at
		if w.result.Events++; w.result.Events%checkEvery == 0 && w.isDone() {
			return nil
		}
		w.do(&e)
	}
	if len(w.result.Violations) == 0 {
		w.atEnd()
	}
	w.result.Time = w.now
	w.picture.close(w)
	w.result.Digest = w.digest
	result := w.result // a pointer into the world would keep all of it, for each seed of a sweep
	return &result
}

func (w *World) isDone() bool {
	select {
	case <-w.ending:
		return true
	default:
		return false
	}
}

// do lets an event happen. A panic of an agent is a violation too.
func (w *World) do(e *event) {
	defer func() {
		if x := recover(); x != nil {
			w.violate("panic", -1, "%v", x)
		}
	}()
	e.do()
}

// begin starts the first hosts: the first of them forms the job of all.
func (w *World) begin() {
	for _, ranks := range w.sc.Ranks {
		w.newHost(ranks)
	}
	var members []coord.Member
	for _, h := range w.hosts {
		h.boots++
		members = append(members, h.member(h.newID(h.boots)))
		h.boots--
	}
	for i, h := range w.hosts {
		if i == 0 {
			h.start(members, nil)
		} else {
			w.after(time.Duration(h.rand.Int64N(int64(time.Second))), func() { h.start(nil, nil) })
		}
	}
}

func (w *World) newHost(ranks int) *host {
	place := len(w.hosts)
	h := &host{w: w, place: place, address: address(place), rand: rand.New(rand.NewPCG(w.sc.Seed, uint64(place)+100))}
	h.rate = 1 + float64((h.rand.Float64()-0.5)*2e-4) // rounded: no processor may fuse it into another history
	h.base = time.Duration(h.rand.Int64N(int64(100 * time.Hour)))
	for k := range ranks {
		h.ranks = append(h.ranks, k)
	}
	w.hosts = append(w.hosts, h)
	return h
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note adds to the digest of the history.
func (w *World) note(kind byte, a, b int, data []byte) {
	var head [25]byte
	head[0] = kind
	binary.LittleEndian.PutUint64(head[1:], uint64(w.now))
	binary.LittleEndian.PutUint64(head[9:], uint64(a)<<32|uint64(uint32(b)))
	binary.LittleEndian.PutUint64(head[17:], uint64(crc32.Checksum(data, castagnoli)))
	for _, c := range head {
		w.digest[0] = (w.digest[0] ^ uint64(c)) * 0x100000001b3
	}
	w.digest[1] = w.digest[1]*0x9e3779b97f4a7c15 + w.digest[0]
}

// say writes what happened at a node to the trace.
func (w *World) say(place int, format string, args ...any) {
	if w.trace == nil {
		return
	}
	who := "  -"
	if place >= 0 {
		who = fmt.Sprintf("%3d", place)
	}
	_, _ = fmt.Fprintf(w.trace, "%12.6f %s  %s\n", w.now.Seconds(), who, fmt.Sprintf(format, args...)) // a trace that nobody reads must not end the run
}

// violate notes that an invariant does not hold.
func (w *World) violate(invariant string, place int, format string, args ...any) {
	v := Violation{Invariant: invariant, Time: w.now, Node: place, Seen: fmt.Sprintf(format, args...)}
	w.say(place, "VIOLATION %s: %s", invariant, v.Seen)
	if len(w.result.Violations) < 20 {
		w.result.Violations = append(w.result.Violations, v)
	}
}

// live are the processes that belong to the job and run.
func (w *World) live() (list []*process) {
	for _, h := range w.hosts {
		if p := h.proc; p != nil && !p.dead && p.foreign == "" {
			list = append(list, p)
		}
	}
	return list
}
