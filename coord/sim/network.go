package sim

import (
	"slices"
	"time"

	"github.com/headrace/headrace/coord/group"
)

// network is the links between hosts.
type network struct {
	w      *World
	rules  []*rule
	noise  []Network
	at     map[string]int // host by address
	slow   map[int]time.Duration
	second time.Duration // the present one, and what was sent in it
	sent   int
}

// rule is a fault of links that holds for a while.
type rule struct {
	blocks func(from, to int) bool
	group  func(place int) bool // a partition: those for which it holds, and the others
	ends   []int                // a link: between whom
	off    bool                 // a link that flaps is up at the moment
}

func (n *network) init(w *World) {
	n.w, n.at, n.slow = w, map[string]int{}, map[int]time.Duration{}
}

// blocked reports whether messages from a host to another one get lost.
func (n *network) blocked(from, to int) bool {
	for _, r := range n.rules {
		if !r.off && r.blocks(from, to) {
			return true
		}
	}
	return false
}

// add puts a rule in force for a while.
func (n *network) add(r *rule, d time.Duration) {
	n.rules = append(n.rules, r)
	for _, h := range n.w.hosts {
		if r.group != nil && r.group(h.place) || r.group == nil && slices.Contains(r.ends, h.place) {
			n.w.picture.span(n.w.now, n.w.now+d, h.place, "cut")
		}
	}
	n.w.gossip.changed()
	n.w.after(d, func() {
		for i, o := range n.rules {
			if o == r {
				n.rules = append(n.rules[:i:i], n.rules[i+1:]...)
				break
			}
		}
		r.blocks = nil
		n.w.say(-1, "links heal")
		n.w.gossip.changed()
	})
}

// partition is the rule that some hosts do not reach the others.
func partition(inside func(place int) bool) *rule {
	return &rule{group: inside, blocks: func(a, b int) bool { return inside(a) != inside(b) }}
}

// chances are those of the moment.
func (n *network) chances() Network {
	c := n.w.sc.Network
	for _, x := range n.noise {
		c.Loss, c.Double, c.Reorder, c.Corrupt = max(c.Loss, x.Loss), max(c.Double, x.Double), max(c.Reorder, x.Reorder), max(c.Corrupt, x.Corrupt)
	}
	return c
}

// send puts a message on its way.
func (w *World) send(from *process, s *group.Send) {
	w.result.Messages++
	w.net.storm()
	if !s.Steady {
		w.result.Caused++
	}
	w.result.Bytes += int64(len(s.Message))
	to := w.hostAt(s.To.Address)
	if to < 0 || w.net.blocked(from.place, to) {
		return
	}
	c := w.net.chances()
	copies := 1
	if from.rand.Float64() < c.Double {
		copies = 2
	}
	for range copies {
		if from.rand.Float64() < c.Loss {
			continue
		}
		data := s.Message
		if from.rand.Float64() < c.Corrupt {
			if data = w.corrupt(from, data); data == nil {
				continue
			}
		}
		delay := c.Latency + w.net.slow[from.place]
		if c.Jitter > 0 {
			delay += time.Duration(from.rand.Int64N(int64(c.Jitter)))
		}
		if from.rand.Float64() < c.Reorder {
			delay += time.Duration(from.rand.Int64N(int64(300 * time.Millisecond)))
		}
		place := from.place
		w.after(delay, func() { w.deliver(place, to, data) })
	}
}

// mostSent is how many messages a host may send in a second, in the mean of all: a rank that
// commits piece by piece sends a few dozen, a voter as many for each that it serves.
const mostSent = 1000

// storm looks out for agents that set each other off.
func (n *network) storm() {
	if second := n.w.now / time.Second; second != n.second {
		n.second, n.sent = second, 0
	}
	if n.sent++; n.sent > mostSent*(len(n.w.hosts)+8) {
		n.w.violate("memory", -1, "%d messages were sent within a second", n.sent)
		n.sent = 0
	}
}

// corrupt breaks a message. Agents seal what they send, so broken bytes are dropped
// before they are parsed; a part of those that no seal could let pass gets through, to see
// that an agent takes no harm.
func (w *World) corrupt(from *process, data []byte) []byte {
	w.result.Corrupted++
	broken := append([]byte(nil), data...)
	switch from.rand.IntN(4) {
	case 0:
		broken[0] += 1 + byte(from.rand.IntN(200)) // another version
	case 1:
		broken[1] = 100 + byte(from.rand.IntN(100)) // no message at all
	case 2:
		broken = broken[:from.rand.IntN(min(18, len(data)))] // cut off within the sender
	default:
		return nil
	}
	return broken
}

func (w *World) deliver(from, to int, data []byte) {
	p := w.hosts[to].proc
	if p == nil || p.dead {
		return
	}
	w.note('m', from, to, data)
	p.receive(data)
}

// hostAt is the host with an address, -1 if there is none.
func (w *World) hostAt(address string) int {
	if len(w.net.at) != len(w.hosts) {
		for _, h := range w.hosts {
			w.net.at[h.address] = h.place
		}
	}
	if place, ok := w.net.at[address]; ok {
		return place
	}
	return -1
}
