package sampler

import "encoding/binary"

// homeKeys are the hashes by which blocks choose nodes. They depend on the source
// alone: a block's first choice is the same in every epoch and run, so that what a
// node has cached stays useful.
type homeKeys struct {
	block uint64
	node  []uint64 // hash of each node
}

func newHomeKeys(fingerprint string, nodes int) homeKeys {
	h := newHash("headrace/homes/1")
	h.text(fingerprint)
	sum := h.sum()
	keys := homeKeys{block: binary.LittleEndian.Uint64(sum[:]), node: make([]uint64, nodes)}
	k1 := binary.LittleEndian.Uint64(sum[8:])
	for v := range keys.node {
		keys.node[v] = mix(uint64(v) + k1)
	}
	return keys
}

// choose is a block's favourite among the nodes that have room, which are listed in
// rising order: that with the highest score, the first of equals; -1 if none has.
func (k *homeKeys) choose(block int64, room []int32) int32 {
	of := mix(uint64(block) + k.block)
	best, score := int32(-1), uint64(0)
	for _, v := range room {
		if s := mix(of ^ k.node[v]); s > score || best < 0 {
			best, score = v, s
		}
	}
	return best
}

// windowHomes is the home of each block of a window, by shuffled index. Every node
// is home to as many of the window's samples as any other, as far as whole blocks
// allow: rendezvous hashing alone would leave a node with half as many again, and
// the surplus of a step would be read elsewhere.
type windowHomes struct {
	window *windowOrder
	node   []int32
}

func (k *homeKeys) homes(b *blockOrder, w *windowOrder) *windowHomes {
	nodes := int64(len(k.node))
	most := (w.places.Len()-1)/nodes + 1
	load, room := make([]int64, nodes), make([]int32, nodes)
	h := &windowHomes{window: w, node: make([]int32, w.blocks.Len())}
	settle := func(j int64, slack int64) {
		room = room[:0]
		for v, n := range load {
			if n+slack <= most {
				room = append(room, int32(v))
			}
		}
		v := k.choose(b.order.At(w.blocks.Start+j), room)
		h.node[j] = v
		if v >= 0 {
			load[v] += b.start(w.blocks.Start+j+1) - b.start(w.blocks.Start+j)
		}
	}
	for j := range h.node {
		size := b.start(w.blocks.Start+int64(j)+1) - b.start(w.blocks.Start+int64(j))
		settle(int64(j), size)
	}
	for j, v := range h.node {
		if v < 0 { // it fits nowhere whole: any node below its share, which there is
			settle(int64(j), 1)
		}
	}
	return h
}
