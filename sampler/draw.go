package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Key is what a seeded order depends on, besides its length.
type Key [sha256.Size]byte

// EpochKey is the key of one epoch's order. Fingerprint, seed and epoch go
// through a hash of their own fields, so no two pairs of seed and epoch share an
// order as they do where the two are added.
func EpochKey(fingerprint string, n int64, seed uint64, epoch int64) Key {
	h := newHash("headrace/order/1")
	h.text(fingerprint)
	h.number(n)
	h.word(seed)
	h.number(epoch)
	return h.sum()
}

// mix is a bijection of 64-bit words in which every input bit reaches every
// output bit (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// below gives a uniform integer in [0, m) from a sequence of random words, m > 0.
func below(next func() uint64, m uint64) uint64 {
	for {
		hi, lo := bits.Mul64(next(), m)
		// Of the 2^64 words, 2^64 mod m are too many to be shared out evenly; they
		// are those with a low half below that number.
		if lo >= m || lo >= -m%m {
			return hi
		}
	}
}

// words is the word sequence of a key.
type words struct {
	key   Key
	index uint64 // of the next block
	block [sha256.Size]byte
	used  int // bytes of block
}

func newWords(key Key) *words { return &words{key: key, used: sha256.Size} }

func (w *words) next() uint64 {
	if w.used == len(w.block) {
		h := newHash("headrace/words/1")
		h.bytes(w.key[:])
		h.word(w.index)
		w.block, w.used = h.sum(), 0
		w.index++
	}
	x := binary.LittleEndian.Uint64(w.block[w.used:])
	w.used += 8
	return x
}
