package sampler

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"

	"github.com/headrace/headrace/nd"
)

// Digest proves which samples were delivered at which positions of an epoch: the
// sum over all of them of a keyed 128-bit hash, and their number. It does not
// depend on the order in which they come, the digests of ranks or of parts of an
// epoch merge by addition, and anyone can compute from the plan what it must be
// (Epoch.Digest). A sample that comes twice, is lost, or comes at the place of
// another changes it, save for one chance in 2^64 or less. It is no defence
// against someone who forges it.
//
// The zero value is the digest of nothing.
type Digest struct {
	Lanes [2]uint64
	Count int64
}

// DataDigest is a Digest into which the delivered bytes enter as well, by their
// CRC-32: two runs with equal data digests have trained on the same bytes, save that
// other bytes in one sample go unseen once in 2^32.
type DataDigest Digest

// Merge is the digest of both.
func (d Digest) Merge(o Digest) Digest {
	return Digest{[2]uint64{d.Lanes[0] + o.Lanes[0], d.Lanes[1] + o.Lanes[1]}, d.Count + o.Count}
}

// Merge is the digest of both.
func (d DataDigest) Merge(o DataDigest) DataDigest { return DataDigest(Digest(d).Merge(Digest(o))) }

// String is the lanes as 32 hex digits, without the count.
func (d Digest) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d.Lanes[0])
	binary.BigEndian.PutUint64(b[8:], d.Lanes[1])
	return hex.EncodeToString(b[:])
}

// String is the lanes as 32 hex digits, without the count.
func (d DataDigest) String() string { return Digest(d).String() }

// ParseDigest reads what String writes.
func ParseDigest(text string, count int64) (Digest, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return Digest{}, nd.Errorf(nd.ErrConfig, "digest %q: 32 hex digits are wanted", text)
	}
	return Digest{[2]uint64{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, count}, nil
}

// DigestKey keys the digests of one epoch, so that those of two epochs or streams
// do not stand in for each other.
type DigestKey struct{ k [6]uint64 }

// DigestKey makes the key of an epoch's digests.
func (s Stream) DigestKey(epoch int64) DigestKey {
	key := EpochKey(s.Fingerprint, s.N, s.Seed, epoch)
	h := newHash("headrace/digest/1")
	h.bytes(key[:])
	w := newWords(h.sum())
	var d DigestKey
	for i := range d.k {
		d.k[i] = w.next()
	}
	return d
}

func (k *DigestKey) lane(j int, position, sample int64) uint64 {
	return mix(mix(uint64(position)+k.k[2*j]) ^ (uint64(sample) + k.k[2*j+1]))
}

// Add counts a sample as delivered. Samples that are skipped or filled are
// delivered too: their position is done with.
func (k *DigestKey) Add(d *Digest, position, sample int64) {
	d.Lanes[0] += k.lane(0, position, sample)
	d.Lanes[1] += k.lane(1, position, sample)
	d.Count++
}

// AddData counts a sample as delivered with a Content.
func (k *DigestKey) AddData(d *DataDigest, position, sample int64, content uint64) {
	d.Lanes[0] += mix(k.lane(0, position, sample) + mix(content+k.k[4]))
	d.Lanes[1] += mix(k.lane(1, position, sample) + mix(content+k.k[5]))
	d.Count++
}

// Content is a checksum of a sample's bytes: its part of each field's tensor, in
// the order of the fields.
func Content(fields ...[]byte) uint64 {
	c := uint64(len(fields))
	for _, bytes := range fields {
		c = mix(c ^ (uint64(crc32.ChecksumIEEE(bytes)) + uint64(len(bytes))<<32))
	}
	return c
}

// Digest is what the digest of a range of positions must be. That of the epoch is
// over Delivered; a long range may be split, and the parts merged.
func (e *Epoch) Digest(positions nd.Span) Digest {
	positions = positions.Intersect(nd.Span{Stop: e.N})
	key := e.DigestKey(e.Number)
	var d Digest
	var row [512]int64
	for first := positions.Start; first < positions.Stop; first += int64(len(row)) {
		samples := row[:min(int64(len(row)), positions.Stop-first)]
		e.order.samples(first, samples)
		for i, sample := range samples {
			key.Add(&d, first+int64(i), sample)
		}
	}
	return d
}
