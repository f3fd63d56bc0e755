package zarr

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"slices"
)

// block is an array of uint16 in memory, C order.
type block struct {
	shape []int64
	data  []uint16
}

// at is the element at a coordinate; outside of the block there is garbage, as
// beyond the edge of an array.
func (b block) at(coord []int64) uint16 {
	linear := int64(0)
	for i, c := range coord {
		if c >= b.shape[i] {
			return 0xdead
		}
		linear = linear*b.shape[i] + c
	}
	return b.data[linear]
}

// cut is the block of the given shape that starts at origin.
func (b block) cut(origin, shape []int64) block {
	out := block{shape: shape}
	n := product(shape)
	for linear := range n {
		coord := unravel(linear, shape)
		for i := range coord {
			coord[i] += origin[i]
		}
		out.data = append(out.data, b.at(coord))
	}
	return out
}

// transpose is numpy's: axis i of the result is axis order[i] of b.
func (b block) transpose(order []int) block {
	out := block{shape: make([]int64, len(order))}
	for i, axis := range order {
		out.shape[i] = b.shape[axis]
	}
	for linear := range product(out.shape) {
		to := unravel(linear, out.shape)
		from := make([]int64, len(order))
		for i, axis := range order {
			from[axis] = to[i]
		}
		out.data = append(out.data, b.at(from))
	}
	return out
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, e := range shape {
		n *= e
	}
	return n
}

// The codecs that the writer knows, as they are in the metadata.
type (
	codecSpec struct {
		Name   string          `json:"name"`
		Config json.RawMessage `json:"configuration,omitempty"`
	}
	shardSpec struct {
		ChunkShape    []int64     `json:"chunk_shape"`
		Codecs        []codecSpec `json:"codecs"`
		IndexCodecs   []codecSpec `json:"index_codecs"`
		IndexLocation string      `json:"index_location"`
	}
	orderSpec  struct{ Order []int }
	endianSpec struct{ Endian string }
)

func configOf[T any](c codecSpec) (t T) {
	if err := json.Unmarshal(c.Config, &t); err != nil {
		panic(err)
	}
	return t
}

// writer stores blocks by walking a codec list literally, one codec after the
// other: transposes move elements, shards are cut in C order of what they get.
// It knows nothing of Level.
type writer struct{ r *rand.Rand }

func (w writer) encode(codecs []codecSpec, b block) []byte {
	var out []byte
	for _, c := range codecs {
		switch c.Name {
		case "transpose":
			b = b.transpose(configOf[orderSpec](c).Order)
		case "bytes":
			out = words(b, configOf[endianSpec](c).Endian == "big")
		case "sharding_indexed":
			out = w.shard(configOf[shardSpec](c), b)
		case "crc32c":
			out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	return out
}

func words(b block, big bool) []byte {
	var out []byte
	for _, x := range b.data {
		if big {
			out = binary.BigEndian.AppendUint16(out, x)
		} else {
			out = binary.LittleEndian.AppendUint16(out, x)
		}
	}
	return out
}

// shard stores the inner chunks in random order with gaps; one in five is left
// out, which the data then must not hold.
func (w writer) shard(s shardSpec, b block) []byte {
	ix := &Index{AtStart: s.IndexLocation == "start"}
	for _, c := range s.IndexCodecs {
		switch c.Name {
		case "transpose":
			ix.Order = configOf[orderSpec](c).Order
		case "bytes":
			ix.Big = configOf[endianSpec](c).Endian == "big"
		case "crc32c":
			ix.Checksum = true
		}
	}
	for i, n := range s.ChunkShape {
		ix.Counts = append(ix.Counts, b.shape[i]/n)
	}
	n := product(ix.Counts)
	size := 16 * n
	if ix.Checksum {
		size += 4
	}
	var body []byte
	if ix.AtStart {
		body = make([]byte, size)
	}
	entries := make([]Entry, n)
	for _, linear := range w.r.Perm(int(n)) {
		inner := b.cut(origin(int64(linear), ix.Counts, s.ChunkShape), s.ChunkShape)
		if !slices.ContainsFunc(inner.data, func(x uint16) bool { return x != 0 && x != 0xdead }) {
			entries[linear] = Entry{1<<64 - 1, 1<<64 - 1}
			continue
		}
		body = append(body, make([]byte, w.r.IntN(3))...)
		chunk := w.encode(s.Codecs, inner)
		entries[linear] = Entry{uint64(len(body)), uint64(len(chunk))}
		body = append(body, chunk...)
	}
	encoded := encodeIndex(ix, entries)
	if ix.AtStart {
		copy(body, encoded)
		return body
	}
	return append(body, encoded...)
}

func origin(linear int64, counts, shape []int64) []int64 {
	coord := unravel(linear, counts)
	for i := range coord {
		coord[i] *= shape[i]
	}
	return coord
}
