package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// hasher builds the hashed bytes that doc.go specifies. The domain at the front
// keeps hashes of different meaning apart.
type hasher struct{ h hash.Hash }

func newHash(domain string) hasher {
	h := hasher{sha256.New()}
	h.bytes([]byte(domain))
	h.bytes([]byte{0})
	return h
}

// newFingerprint starts the fingerprint of a source.
func newFingerprint(kind string) hasher {
	h := newHash("headrace/source/1")
	h.text(kind)
	return h
}

func (h hasher) bytes(b []byte) { _, _ = h.h.Write(b) } // a hash never fails

func (h hasher) word(x uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	h.bytes(b[:])
}

func (h hasher) number(x int64) { h.word(uint64(x)) }

func (h hasher) text(s string) {
	h.word(uint64(len(s)))
	h.bytes([]byte(s))
}

func (h hasher) numbers(list []int64) {
	h.word(uint64(len(list)))
	for _, x := range list {
		h.number(x)
	}
}

func (h hasher) sum() (sum [sha256.Size]byte) {
	h.h.Sum(sum[:0])
	return sum
}

// fingerprint is the sum cut to 128 bits: a state stays short, and 2^64 sources
// must be tried to find two that collide.
func (h hasher) fingerprint() string {
	sum := h.sum()
	return hex.EncodeToString(sum[:16])
}

func (h hasher) flag(yes bool) {
	if yes {
		h.word(1)
	} else {
		h.word(0)
	}
}
