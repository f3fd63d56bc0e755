package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
)

// A summedCase is a chunk that is decoded, its sum behind its encoded bytes.
type summedCase struct {
	name   string
	src    []byte
	lead   int // src begins so many bytes behind a multiple of 16
	flags  uint16
	before uint32 // its status when it is decoded
	want   uint32
}

// sumAll compares the sums of chunks in one launch, and checks statuses and outputs.
func sumAll(t *testing.T, m *machine, cases []summedCase) {
	t.Helper()
	var table, status []byte
	buffers := [][]byte{nil, nil}
	plain := []byte("what has been decoded")
	for i, c := range cases {
		at := len(buffers)
		buffers = append(buffers, append(make([]byte, c.lead), c.src...), bytes.Clone(plain))
		table = Chunk{
			Src: place(at, c.lead), Dst: place(at+1, 0), SrcBytes: uint32(len(c.src) - 4), DstBytes: uint32(len(plain)), Status: uint32(i), Flags: c.flags,
		}.Append(table)
		status = binary.LittleEndian.AppendUint32(status, c.before)
	}
	buffers[0], buffers[1] = table, status
	m.run(t, kernelCrc32c, 3, Crc32cBlock, DecodeParams{Chunks: place(0, 0), Status: place(1, 0), N: uint32(len(cases))}.Append(nil), buffers)
	for i, c := range cases {
		got := binary.LittleEndian.Uint32(status[4*i:])
		want := plain
		if got != c.before {
			want = make([]byte, len(plain))
		}
		if got != c.want || !bytes.Equal(buffers[3+2*i], want) {
			t.Errorf("%s: status %d, expected %d; output %q", c.name, got, c.want, buffers[3+2*i])
		}
	}
}

// summed is data with the sum behind it.
func summed(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clip(data), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// Sums of all lengths around those at which threads begin to have work, at all alignments, are what
// package crc32 computes; any bit that changes is seen, and what was refused before stays so.
func TestCrc32c(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	var cases []summedCase
	lengths := []int{511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 12_300, 70_001}
	for n := range 70 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		good := summed(randomBytes(r, n))
		bad := bytes.Clone(good)
		bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		name := fmt.Sprintf("%d bytes", n)
		cases = append(cases,
			summedCase{name + ", good", good, r.IntN(16), Summed, OK, OK},
			summedCase{name + ", a bit changed", bad, r.IntN(16), Summed, OK, Corrupt},
			summedCase{name + ", not looked at", bad, r.IntN(16), Unchecked, OK, OK},
			summedCase{name + ", corrupt before", good, r.IntN(16), Summed, Corrupt, Corrupt},
			summedCase{name + ", left to the host before", bad, r.IntN(16), Summed, Unsupported, Unsupported},
		)
	}
	for lead := range 16 {
		cases = append(cases, summedCase{fmt.Sprintf("%d behind a multiple of 16", lead), summed(randomBytes(r, 5000+r.IntN(5000))), lead, Summed, OK, OK})
	}
	cases = append(cases, summedCase{"zeros", summed(make([]byte, 10_000)), 0, Summed, OK, OK},
		summedCase{"zeros, a byte less", summed(make([]byte, 10_000))[1:], 0, Summed, OK, Corrupt})
	onMachines(t, func(t *testing.T, m *machine) { sumAll(t, m, cases) })
}
