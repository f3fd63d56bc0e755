package kernels

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/codec"
)

// statusesOf decodes frames on a machine, each to as many bytes as its source says.
func statusesOf(t *testing.T, m *machine, sources []zstdSource) (list []zstdOutcome) {
	t.Helper()
	blocks, arena := zstdRoom(sources)
	return m.decodeZstd(t, sources, blocks, arena)
}

// A distribution of Huffman weights may have states for a weight that no tree has, and not use
// them. libzstd has room for such a table at accuracy log 5, up to symbol 91, and at 6 refuses it. The
// kernels follow; what they do not read at log 5 is the host's. (klauspost's decoder, that of
// builds without cgo, is not asked: it has limits of its own, see package codec.)
func TestZstdWeightsThatAreNotUsed(t *testing.T) {
	const ok, corrupt, host = OK, Corrupt, Unsupported
	cases := []struct {
		log, symbol int
		frame       string
		plain       string
		want        uint32
	}{
		{5, 11, "28b52ffd20107d000002c102061040f17e8a073104251500", "01010002000201000001000002020001", ok},
		{5, 12, "28b52ffd20107d000002c1020600be7e0618048354130b00", "01020001000202010101000200000102", ok},
		{5, 13, "28b52ffd20107d000002c102062044f8fbf7060c524d0c00", "02000100020201010100020000010200", host},
		{5, 19, "28b52ffd2010850000020103071040f17f1f8a073104251500", "01010002000201000001000002020001", host},
		{
			5, 91, "28b52ffd20400501000204070d1040f1ffffffffffff7f1f8a070b1858e9c108f0285ea81882920a00",
			"01010002000201000001000002020001010100000201020202000101000102020200000000020001020000010202020100020101020000000202000000010102", host,
		},
		{5, 92, "28b52ffd20400501000204070d1040f1ffffffffffffbf1f8a070b1858e9c108f0285ea81882920a00", "", host},
		{6, 11, "28b52ffd20107d000002c1020611f2bc07a3196d522d0a00", "01000101020101010002000202010201", ok},
		{6, 12, "28b52ffd20107d000002c1020601fcfa192f108354130b00", "", corrupt},
		{6, 13, "28b52ffd20108500000201030711d084bf1fd8153c8a170200", "", corrupt},
	}
	o := newZstdOracle(t)
	var sources []zstdSource
	for _, c := range cases {
		frame, err := hex.DecodeString(c.frame)
		if err != nil {
			t.Fatal(err)
		}
		s := zstdSource{name: fmt.Sprintf("symbol %d at log %d", c.symbol, c.log), src: frame, size: int(frame[5])} // one segment
		if got := hex.EncodeToString(o.decode(t, s)); codec.ZstdLibrary != "klauspost" && got != c.plain {
			t.Errorf("%s: libzstd gives %s, expected %s", s.name, got, c.plain)
		}
		sources = append(sources, s)
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for i, got := range statusesOf(t, m, sources) {
			if c := cases[i]; got.status != c.want || c.want == OK && hex.EncodeToString(got.dst) != c.plain {
				t.Errorf("%s: status %d, %x; expected %d, %s", sources[i].name, got.status, got.dst, c.want, c.plain)
			}
		}
	})
}

// A chunk of headers without bytes, well formed, is left to the host after some thousands of them: one thread
// of the GPU reads them. A header for every byte, and some of none, is no such chunk.
func TestZstdHeadersWithoutBytes(t *testing.T) {
	const size = 4096
	frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x60, 0, size>>8 - 1} // one segment, content size
	empty := []byte{0, 0, 0}
	whole := append([]byte{size&31<<3 | 1, size >> 5, 0}, make([]byte, size)...)
	single := bytes.Repeat([]byte{1 << 3, 0, 0, 7}, size)
	single[4*(size-1)] |= 1 // the last block
	skippable := binary.LittleEndian.AppendUint32([]byte{0x50, 0x2A, 0x4D, 0x18}, 0)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	good, many := join(frame, whole), 2_000_000
	sources := []zstdSource{
		{name: "a block for each byte", src: join(frame, single)},
		{name: "and some without", src: join(frame, bytes.Repeat(empty, 1000), single)},
		{name: "empty blocks", src: join(frame, bytes.Repeat(empty, many), whole)},
		{name: "skippable frames", src: join(bytes.Repeat(skippable, many/4), good)},
		{name: "empty frames", src: join(bytes.Repeat([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0}, many/4), good)},
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for i, s := range sources {
			s.size = size
			want := Unsupported
			if i < 2 {
				want = OK
			}
			began := time.Now()
			if got := m.decodeZstd(t, []zstdSource{s}, 10_000, 1<<20)[0]; got.status != want {
				t.Errorf("%s: status %d after %v, expected %d", s.name, got.status, time.Since(began), want)
			}
		}
	})
}
