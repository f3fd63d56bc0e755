package probe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// shot are u16 around 500: what microscopes give.
func shot(n int) []byte {
	r := rand.New(rand.NewPCG(7, 7))
	var b []byte
	for len(b) < n {
		b = binary.LittleEndian.AppendUint16(b, uint16(500+20*r.NormFloat64()))
	}
	return b[:n]
}

func encoded(t testing.TB, name, config string, data []byte) []byte {
	t.Helper()
	c, err := codec.New(name, json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Encode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func structureOf(t testing.TB, m Method, stored []byte, decoded int) *Structure {
	t.Helper()
	s := &Structure{}
	if err := s.Add(m, stored, int64(decoded)); err != nil {
		t.Fatal(err)
	}
	return s
}

// Blocks of each type, and what a frame's header says.
func TestZstdBlocks(t *testing.T) {
	n := 300_000
	s := structureOf(t, Zstd, encoded(t, "zstd", `{"level":3,"checksum":true}`, noise(n, 1)), n)
	if s.Blocks.Raw != 3 || s.Plain != int64(n) || s.Checksums != 1 || s.Sequences != 0 || s.Window != int64(n) || s.Sizeless != 0 {
		t.Errorf("noise: %+v", s)
	}
	s = structureOf(t, Zstd, encoded(t, "zstd", `{"level":3}`, shot(n)), n)
	if s.Blocks.Compressed < 3 || s.Checksums != 0 || len(s.Tables) == 0 || s.Sequences == 0 {
		t.Errorf("shot noise: %+v", s)
	}
	// A run, two matches of what came 5000 bytes before: the literals are what is new.
	part := noise(5000, 2)
	s = structureOf(t, Zstd, encoded(t, "zstd", `{"level":3}`, bytes.Repeat(part, 2)), 10_000)
	if s.Sequences != 1 || s.Literals < 5000 || s.Literals > 5010 || s.Huffman != 0 {
		t.Errorf("a repetition: %+v", s)
	}
}

// A stream without content size, skippable frames and several frames in a row are
// counted alike.
func TestZstdFrames(t *testing.T) {
	data := shot(200_000)
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderCRC(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	skip := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, zstdSkippable+5), 3)
	one := structureOf(t, Zstd, b.Bytes(), len(data))
	two := structureOf(t, Zstd, bytes.Join([][]byte{b.Bytes(), append(skip, 1, 2, 3), b.Bytes()}, nil), 2*len(data))
	if one.Sizeless != 1 || one.Frames != 1 || two.Frames != 2 || two.Sequences != 2*one.Sequences || two.Huffman != 2*one.Huffman || two.Checksums != 2 {
		t.Errorf("one frame %+v, two %+v", one, two)
	}
	if one.Features() != two.Features() {
		t.Errorf("the features of %+v and %+v differ", one, two)
	}
}

// The size of a Huffman table is what klauspost's decoder finds in the same bytes.
func TestTableBits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	seen := map[int]bool{}
	for i := range 300 {
		symbols := 2 + r.IntN(250)
		data := make([]byte, 4000)
		for j := range data {
			data[j] = byte(min(int(r.ExpFloat64()*float64(1+r.IntN(symbols))/float64(1+i%7)), 255))
		}
		var s huff0.Scratch
		if _, _, err := huff0.Compress1X(data, &s); err != nil {
			continue // it does not get smaller
		}
		table := bytes.Clone(s.OutTable)
		got, err := tableBits(table)
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := huff0.ReadTable(table, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := reflect.ValueOf(read).Elem().FieldByName("actualTableLog").Uint(); uint64(got) != want {
			t.Errorf("a table of %d bits, want %d", got, want)
		}
		seen[got] = true
	}
	if len(seen) < 5 {
		t.Errorf("only tables of %v bits were met", seen)
	}
}

// LZ4, bare and in blosc frames; a blosc frame with zstd counts what that does.
func TestLZ4AndBlosc(t *testing.T) {
	part := noise(5000, 2)
	twice := bytes.Repeat(part, 2)
	s := structureOf(t, LZ4, encoded(t, "lz4", `{}`, twice), len(twice))
	if s.Sequences != 2 || s.Literals < 5000 || s.Literals > 5020 {
		t.Errorf("a repetition in LZ4: %+v", s)
	}
	data := shot(256 << 10)
	bare := structureOf(t, LZ4, encoded(t, "lz4", `{}`, data), len(data))
	blosc := structureOf(t, BloscLZ4, encoded(t, "blosc", `{"cname":"lz4","clevel":5,"shuffle":1,"typesize":2}`, data), len(data))
	if bare.Sequences == 0 || blosc.Sequences == 0 || blosc.Shuffle != "bytes" || blosc.Frames != 1 || blosc.Plain == 0 {
		t.Errorf("bare %+v, blosc %+v", bare, blosc)
	}
	kept := structureOf(t, BloscLZ4, encoded(t, "blosc", `{"cname":"lz4","clevel":5,"shuffle":2,"typesize":2}`, noise(50_000, 3)), 50_000)
	if kept.Plain != 50_000 || kept.Sequences != 0 {
		t.Errorf("a frame of plain bytes: %+v", kept)
	}
	inside := structureOf(t, BloscZstd, encoded(t, "blosc", `{"cname":"zstd","clevel":3,"shuffle":1,"typesize":2}`, data), len(data))
	if inside.Sequences == 0 || inside.Frames != 1 || inside.Shuffle != "bytes" || len(inside.Tables) == 0 {
		t.Errorf("zstd in blosc: %+v", inside)
	}
	other := structureOf(t, BloscOther, encoded(t, "blosc", `{"cname":"zlib","clevel":3,"shuffle":1,"typesize":2}`, data), len(data))
	if other.Blocks.Compressed == 0 || other.Sequences != 0 {
		t.Errorf("zlib in blosc: %+v", other)
	}
}

// Literals and plain bytes are parts of what is decoded, at all levels.
func TestSharesAreShares(t *testing.T) {
	data := shot(300_000)
	for _, config := range []string{`{"level":-5}`, `{"level":1}`, `{"level":3}`, `{"level":9}`, `{"level":19}`} {
		s := structureOf(t, Zstd, encoded(t, "zstd", config, data), len(data))
		if s.Literals+s.Plain > s.Decoded || s.Huffman > s.Literals || s.Literals+s.Plain == 0 {
			t.Errorf("level %s: %+v", config, s)
		}
		if f := s.Features(); f.LiteralShare < 0 || f.LiteralShare > 1 || f.SequencesPerKiB < 0 || f.SequencesPerKiB > 1024/3 {
			t.Errorf("level %s: %+v", config, f)
		}
	}
}

// Every cut of a chunk is an error or counts less, never a crash.
func TestTorn(t *testing.T) {
	data := shot(3000)
	for m, stored := range map[Method][]byte{
		Zstd: encoded(t, "zstd", `{"level":3,"checksum":true}`, data), LZ4: encoded(t, "lz4", `{}`, data),
		BloscLZ4:  encoded(t, "blosc", `{"cname":"lz4","shuffle":1,"typesize":2}`, data),
		BloscZstd: encoded(t, "blosc", `{"cname":"zstd","shuffle":1,"typesize":2}`, data),
	} {
		for n := range stored {
			s := &Structure{}
			err := s.Add(m, stored[:n], int64(len(data)))
			if err != nil && !errors.Is(err, nd.ErrCorrupt) {
				t.Errorf("%s cut to %d: %v", m, n, err)
			}
			if err == nil && m != LZ4 {
				t.Errorf("%s cut to %d of %d bytes is taken", m, n, len(stored))
			}
		}
	}
}

func FuzzStructure(f *testing.F) {
	data := shot(2000)
	for i, stored := range [][]byte{
		encoded(f, "zstd", `{"level":3,"checksum":true}`, data), encoded(f, "lz4", `{}`, data),
		encoded(f, "blosc", `{"cname":"lz4","shuffle":1,"typesize":2}`, data), encoded(f, "blosc", `{"cname":"zstd","shuffle":2,"typesize":2}`, data),
	} {
		f.Add(byte(i), stored)
	}
	f.Fuzz(func(t *testing.T, method byte, stored []byte) {
		s := &Structure{}
		m := []Method{Zstd, LZ4, BloscLZ4, BloscZstd, BloscOther}[int(method)%5]
		if err := s.Add(m, stored, 1000); err != nil && !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%v", err)
		}
		if s.Sequences < 0 || s.Literals < 0 || s.Plain < 0 {
			t.Errorf("%+v", s)
		}
	})
}
