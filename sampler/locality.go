package sampler

import (
	"slices"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// locality says which node reads which position of a batch. Every rank computes
// the same, from the whole batch.
type locality struct {
	blocks *blockOrder
	keys   homeKeys
	homes  atomic.Pointer[windowHomes] // batches come in a row: nearly always the right one
	last   atomic.Pointer[shares]
}

// shares is how a range of positions is shared out.
type shares struct {
	batch  nd.Span
	groups int
	node   []int32 // of each position of the batch
	home   int64   // positions that are read at home
}

func (s Stream) locality(order *Order) *locality {
	if s.Nodes < 1 || s.blocks() == nil {
		return nil
	}
	l := &locality{blocks: order.blocks, keys: newHomeKeys(s.Fingerprint, s.Nodes)}
	if l.blocks == nil {
		l.blocks = plainBlocks(s.blocks(), max(1, int64(s.Window)))
	}
	return l
}

// share gives each node as many positions as its groups have in slices: first, in
// the order of positions, those at home there as far as they go, then the others
// to the favourite of their block that has room.
func (l *locality) share(batch nd.Span, groups int) *shares {
	if s := l.last.Load(); s != nil && s.batch == batch && s.groups == groups {
		return s
	}
	nodes := len(l.keys.node)
	room := make([]int64, nodes)
	for v := range room {
		first := share(batch.Len(), v*(groups/nodes), groups)
		room[v] = share(batch.Len(), (v+1)*(groups/nodes), groups) - first
	}
	s := &shares{batch: batch, groups: groups, node: make([]int32, batch.Len())}
	var away []int64 // shuffled blocks of what has no room at home
	var row [512]int64
	for i := 0; i < len(s.node); {
		w, places := l.blocks.places(batch.Start+int64(i), row[:min(len(row), len(s.node)-i)])
		homes := l.homesOf(w).node
		for _, place := range places {
			j := l.blocks.at(place, w.blocks)
			v := homes[j-w.blocks.Start]
			if room[v] > 0 {
				room[v]--
				s.home++
			} else {
				v = -1
				away = append(away, j)
			}
			s.node[i] = v
			i++
		}
	}
	l.shareAway(s, away, room)
	l.last.Store(s)
	return s
}

// shareAway gives what has no node, whose blocks are given, to those with room left.
func (l *locality) shareAway(s *shares, blocks []int64, room []int64) {
	var open []int32 // nodes with room
	for v, n := range room {
		if n > 0 {
			open = append(open, int32(v))
		}
	}
	for i, v := range s.node {
		if v >= 0 {
			continue
		}
		v = l.keys.choose(l.blocks.order.At(blocks[0]), open)
		s.node[i], blocks = v, blocks[1:]
		if room[v]--; room[v] == 0 {
			open = slices.DeleteFunc(open, func(o int32) bool { return o == v })
		}
	}
}

func (l *locality) homesOf(w *windowOrder) *windowHomes {
	if h := l.homes.Load(); h != nil && h.window.blocks == w.blocks {
		return h
	}
	h := l.keys.homes(l.blocks, w)
	l.homes.Store(h)
	return h
}

// part is the positions of one group: a node's are cut among its groups in the
// order of positions.
func (s *shares) part(group, nodes int) []int64 {
	perNode := s.groups / nodes
	node := group / perNode
	first := share(s.batch.Len(), node*perNode, s.groups)
	skip := share(s.batch.Len(), group, s.groups) - first
	count := share(s.batch.Len(), group+1, s.groups) - first - skip
	list := make([]int64, 0, count)
	for i, v := range s.node {
		if int(v) != node {
			continue
		}
		if skip--; skip >= 0 {
			continue
		}
		if int64(len(list)) == count {
			break
		}
		list = append(list, s.batch.Start+int64(i))
	}
	return list
}

// group is the group that reads a position.
func (s *shares) group(position int64, nodes int) int {
	i := position - s.batch.Start
	node := s.node[i]
	before := int64(0) // positions of the same node
	for _, v := range s.node[:i] {
		if v == node {
			before++
		}
	}
	perNode := s.groups / nodes
	before += share(s.batch.Len(), int(node)*perNode, s.groups)
	return holder(before, s.batch.Len(), s.groups)
}
