package agent

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// crowd is many members of real memberlist, as the agent configures it, over a network in
// memory, and what each holds of each other one.
type crowd struct {
	t     *testing.T
	net   *memnet
	began time.Time
	list  []*gossip

	mu     sync.Mutex
	place  map[coord.ID]int
	at     []string           // the addresses, by place
	holds  [][]group.Liveness // by observer and subject
	events []opinion
	heard  []time.Time // of a stamp, by observer
}

// opinion is what an observer came to hold of a subject.
type opinion struct {
	at                time.Time
	observer, subject int
	state             group.Liveness
}

// unheard is what is held of whom nobody has told of.
const unheard group.Liveness = 255

// gather starts members that join the first one. They come within a second, as a
// job's nodes do.
func gather(t *testing.T, n int, profile string, net *memnet) *crowd {
	t.Helper()
	c := &crowd{t: t, net: net, began: time.Now(), list: make([]*gossip, n), place: map[coord.ID]int{}, holds: make([][]group.Liveness, n), heard: make([]time.Time, n)}
	cfg := Config{Job: "job", Profile: profile, Key: []byte("0123456789abcdef")}
	for i := range n {
		c.holds[i] = make([]group.Liveness, n)
		for k := range n {
			if k != i {
				c.holds[i][k] = unheard
			}
		}
	}
	first := net.host()
	for i := range n {
		host := first
		if i > 0 {
			host = net.host()
			time.Sleep(time.Second / time.Duration(n))
		}
		id := coord.ID{0: byte(i >> 8), 1: byte(i), 2: 1}
		c.mu.Lock()
		c.place[id], c.at = i, append(c.at, host.address())
		c.mu.Unlock()
		g, err := startGossip(&cfg, id, host.address(), host, []string{first.address()}, new(drops),
			func(x any) {
				if s, ok := x.(seen); ok {
					c.hold(i, s)
				}
			}, func(coord.Stamp) { c.hear(i) })
		if err != nil {
			t.Fatal(err)
		}
		c.list[i] = g
	}
	return c
}

func (c *crowd) hold(observer int, s seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	subject := c.place[s.id]
	if want := c.at[subject]; s.address != want {
		c.t.Errorf("member %d is at %s, as gossip tells %d, and not at %s", subject, s.address, observer, want)
	}
	c.holds[observer][subject] = s.state
	c.events = append(c.events, opinion{time.Now(), observer, subject, s.state})
}

func (c *crowd) hear(observer int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard[observer].IsZero() {
		c.heard[observer] = time.Now()
	}
}

// since forgets what has been.
func (c *crowd) since() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
	return time.Now()
}

// all reports whether all members that are there hold a state of all these subjects.
func (c *crowd) all(state func(observer, subject int) group.Liveness) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, row := range c.holds {
		for s, held := range row {
			if o != s && c.list[o] != nil && held != state(o, s) {
				return false
			}
		}
	}
	return true
}

// until waits for that, and says how long it took since a time: to the last opinion that
// was missing. False: it did not come to that.
func (c *crowd) until(from time.Time, most time.Duration, state func(observer, subject int) group.Liveness) (time.Duration, bool) {
	for !c.all(state) {
		if time.Since(from) > most {
			return time.Since(from), false
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return 0, true
	}
	return c.events[len(c.events)-1].at.Sub(from), true
}

// lose ends a member as the loss of its node does.
func (c *crowd) lose(i int) {
	c.net.hosts[i].lose()
	c.list[i].crash()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list[i] = nil
}

// end ends all.
func (c *crowd) end() {
	for i, g := range c.list {
		if g != nil {
			c.net.hosts[i].lose()
		}
	}
	for _, g := range c.list {
		if g != nil {
			g.crash()
		}
	}
	time.Sleep(time.Minute) // memberlist's goroutines end when what they wait for times out
}

// figures are what a run of gossip has shown.
type figures struct {
	hosts       int
	join        time.Duration // until all know all
	first, last time.Duration // survivor who holds the lost one for dead
	stamp       time.Duration // until all have heard of a new view
	heal        time.Duration // from the end of a partition until all hold all for alive
	unheard     int           // members that have not heard of it: the next one makes up for that
	doubts      int           // live ones that were held for dead, not over a cut
	longest     int           // packet
	bytes       float64       // a second and member, when nothing happens
}

func (f figures) String() string {
	d := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	return fmt.Sprintf("joined %s; a loss is known to the first after %s, to all after %s; a stamp %s; whole %s after a heal; %d false deaths, %d stamps unheard; %.0f B/s, packets up to %d B",
		d(f.join), d(f.first), d(f.last), d(f.stamp), d(f.heal), f.doubts, f.unheard, f.bytes, f.longest)
}

func alive(int, int) group.Liveness { return group.Alive }

// life is what a crowd goes through.
type life int

const (
	whole life = iota // joins, calm, a loss, a partition into halves, the end
	brief             // joins, a loss, the end
)

// lost is the share of packets that get lost.
const lost = 0.05

// watchCrowd runs a crowd through its life.
func watchCrowd(t *testing.T, n int, profile string, seed uint64, life life) (f figures) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	synctest.Test(t, func(t *testing.T) {
		network := newMemnet(seed, lost)
		c := gather(t, n, profile, network)
		defer c.end()
		var ok bool
		if f.join, ok = c.until(c.began, time.Minute, alive); !ok {
			t.Fatalf("seed %d: they do not all know each other after %v", seed, f.join)
		}
		if life != brief {
			time.Sleep(3 * time.Second)
			f.calm(c, 10*time.Second)
		}
		f.loss(c, n/3, seed)
		if life != brief {
			f.partition(c, n/3, seed)
		}
		network.mu.Lock()
		defer network.mu.Unlock()
		f.longest, f.hosts = network.longest, n
	})
	return f
}

// calm is some time in which nothing happens but a stamp.
func (f *figures) calm(c *crowd, d time.Duration) {
	c.since()
	c.net.mu.Lock()
	before := c.net.bytes
	c.net.mu.Unlock()
	time.Sleep(d)
	c.net.mu.Lock()
	f.bytes = float64(c.net.bytes-before) / d.Seconds() / float64(len(c.list))
	c.net.mu.Unlock()
	begin := time.Now()
	c.list[0].spread(coord.Stamp{Founder: 1, View: 1, Index: 1})
	time.Sleep(5 * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.heard[1:] {
		if at.IsZero() {
			f.unheard++
			continue
		}
		f.stamp = max(f.stamp, at.Sub(begin))
	}
	f.doubts += len(c.events)
}

// loss is that of one member.
func (f *figures) loss(c *crowd, who int, seed uint64) {
	begin := c.since()
	c.lose(who)
	dead := func(_, subject int) group.Liveness {
		if subject == who {
			return group.Dead
		}
		return group.Alive
	}
	var ok bool
	if f.last, ok = c.until(begin, time.Minute, dead); !ok {
		c.t.Errorf("seed %d: a loss is not known to all after %v", seed, f.last)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.subject == who && f.first == 0 {
			f.first = e.at.Sub(begin)
		}
		if e.subject != who {
			f.doubts++
		}
	}
}

// partition cuts the crowd into halves, until each has held the other one for dead for
// long enough to have stopped telling of it.
func (f *figures) partition(c *crowd, gone int, seed uint64) {
	half := len(c.list) / 2
	begin := c.since()
	c.net.cuts(func(a, b int) bool { return (a < half) != (b < half) })
	apart := func(o, s int) group.Liveness {
		if s == gone || (o < half) != (s < half) {
			return group.Dead
		}
		return group.Alive
	}
	if took, ok := c.until(begin, time.Minute, apart); !ok {
		c.t.Errorf("seed %d: the halves do not give each other up in %v", seed, took)
	}
	time.Sleep(20 * time.Second)
	begin = c.since()
	c.net.cuts(nil)
	var ok bool
	f.heal, ok = c.until(begin, 5*time.Minute, func(_, s int) group.Liveness {
		if s == gone {
			return group.Dead
		}
		return group.Alive
	})
	if !ok {
		c.t.Errorf("seed %d: the partition is not whole again after %v", seed, f.heal)
	}
}

// within checks a run against what is promised, for jobs of up to 256 nodes.
func (f figures) within(t *testing.T, profile string, life life) {
	t.Helper()
	known, suspicion := 7500*time.Millisecond, 2*time.Second
	if profile == "fast" {
		known, suspicion = 2500*time.Millisecond, 400*time.Millisecond
	}
	for _, c := range []struct {
		what string
		got  time.Duration
		most time.Duration
	}{
		{"all know all", f.join, 5 * time.Second},
		{"all know of a loss", f.last, known},
		{"a stamp is everywhere", f.stamp, time.Second},
		{"a partition is whole again", f.heal, 30 * time.Second},
	} {
		if c.got > c.most || c.got == 0 && life == whole {
			t.Errorf("%s after %v, wanted within %v", c.what, c.got, c.most)
		}
	}
	if f.first < suspicion {
		t.Errorf("a loss is certain after %v: it was hardly suspected", f.first)
	}
	if f.doubts > 1+f.hosts/8 || f.unheard > 1+f.hosts/50 {
		t.Errorf("%d times a living one was held for dead; %d have not heard of a stamp", f.doubts, f.unheard)
	}
	if f.longest > 1472 {
		t.Errorf("a packet of %d bytes does not fit a frame of 1500", f.longest)
	}
}

// Real memberlist, as the agent configures it, over a network that loses 5 % of the packets
// and delays others: how soon all know all, a loss, a new view, and each other after
// a partition.
func TestGossip(t *testing.T) {
	nodes := 24
	switch {
	case raced || testing.Short():
		nodes = 16
	case os.Getenv("SOAK") != "":
		nodes = 64
	}
	for i, profile := range []string{"default", "fast"} {
		t.Run(profile, func(t *testing.T) {
			f := watchCrowd(t, nodes, profile, uint64(i), whole)
			t.Logf("%d nodes: %v", nodes, f)
			f.within(t, profile, whole)
		})
	}
}

// The same with 256 nodes, which takes some 15 s of a core: in make soak. The fast profile, and the
// partition, are in TestGossipFigures.
func TestGossipOfMany(t *testing.T) {
	if raced || os.Getenv("SOAK") == "" {
		t.Skip("-race, or SOAK is not set: 256 members of memberlist take long")
	}
	f := watchCrowd(t, 256, "default", 2, brief)
	t.Logf("256 nodes: %v", f)
	f.within(t, "default", brief)
}

// A link that is cut in one direction is no loss: others are asked to look. A node from
// which nothing comes is one, though it hears all, and is back soon after.
func TestGossipOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, mute = 12, 5
		network := newMemnet(1, 0.02)
		c := gather(t, n, "fast", network)
		defer c.end()
		if took, ok := c.until(c.began, 10*time.Second, alive); !ok {
			t.Fatalf("they do not know each other after %v", took)
		}
		c.since()
		network.cuts(func(from, to int) bool { return from == 3 && to == 7 || from == 8 && to < 3 })
		time.Sleep(30 * time.Second)
		c.mu.Lock()
		if len(c.events) > 0 {
			t.Errorf("of links cut in one direction: %v", c.events)
		}
		c.mu.Unlock()
		begin := c.since()
		network.cuts(func(from, _ int) bool { return from == mute })
		took, ok := c.until(begin, 30*time.Second, func(o, s int) group.Liveness {
			if s == mute || o == mute {
				return group.Dead
			}
			return group.Alive
		})
		if !ok {
			t.Errorf("a node from which nothing comes is not lost after %v", took)
		}
		begin = c.since()
		network.cuts(nil)
		if took, ok = c.until(begin, 30*time.Second, alive); !ok {
			t.Errorf("it is not back after %v", took)
		}
		t.Logf("back after %v", took)
	})
}

// Packets of the job that come again do nothing: a member that is lost stays so, and none that
// lives is doubted for what was true once.
func TestGossipReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, gone, suspect = 8, 3, 5
		network := newMemnet(3, 0)
		network.taped = true
		c := gather(t, n, "fast", network)
		defer c.end()
		if took, ok := c.until(c.began, 10*time.Second, alive); !ok {
			t.Fatalf("they do not know each other after %v", took)
		}
		network.cuts(func(from, to int) bool { return from == suspect || to == suspect })
		time.Sleep(700 * time.Millisecond) // some suspect it, and say so
		network.cuts(nil)
		time.Sleep(15 * time.Second)
		begin := c.since()
		c.lose(gone)
		dead := func(_, s int) group.Liveness {
			if s == gone {
				return group.Dead
			}
			return group.Alive
		}
		if took, ok := c.until(begin, 10*time.Second, dead); !ok {
			t.Fatalf("the loss is not known after %v", took)
		}
		c.since()
		packets := network.replay()
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.events) > 0 || packets < 1000 {
			t.Errorf("%d packets again: %v", packets, c.events)
		}
	})
}
