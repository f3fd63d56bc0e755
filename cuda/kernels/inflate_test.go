package kernels

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/adler32"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	kflate "github.com/klauspost/compress/flate"
	kzlib "github.com/klauspost/compress/zlib"
)

// gzipMagic begins a member; whatever does not is zlib's.
var gzipMagic = []byte{0x1f, 0x8b}

// flusher is an encoder of deflate.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// deflated is what an encoder makes of data, which it gets in pieces of so many bytes,
// flushed; in one if that is 0.
func deflated(t testing.TB, open func(io.Writer) (flusher, error), data []byte, piece int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := open(&out)
	for err == nil && piece > 0 && len(data) > piece {
		if _, err = w.Write(data[:piece]); err == nil {
			err = w.Flush()
		}
		data = data[piece:]
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// inflateEncoders are those of Go and of klauspost, by name.
func inflateEncoders() map[string]func(io.Writer) (flusher, error) {
	out := map[string]func(io.Writer) (flusher, error){}
	for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
		out[fmt.Sprintf("zlib %d", level)] = func(w io.Writer) (flusher, error) { return zlib.NewWriterLevel(w, level) }
		out[fmt.Sprintf("gzip %d", level)] = func(w io.Writer) (flusher, error) { return gzip.NewWriterLevel(w, level) }
		out[fmt.Sprintf("klauspost %d", level)] = func(w io.Writer) (flusher, error) { return kzlib.NewWriterLevel(w, level) }
	}
	return out
}

// inflateCorpus is what encoders write: of each size and kind a few encoders, in turn.
func inflateCorpus(t testing.TB) (cases []chunkCase) {
	t.Helper()
	encoders := inflateEncoders()
	names := slices.Sorted(maps.Keys(encoders))
	turn := 0
	for _, n := range []int{0, 1, 2, 3, 20, 63, 257, 258, 259, 700, 4095, 4113, 20_000, 65_536, 131_073, 262_144} {
		kinds := zstdKinds(n)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			for k := range 5 {
				turn++
				if n > 20_000 && k > 0 || n > 100_000 && turn%3 != 0 {
					continue
				}
				name := names[(7*turn+k)%len(names)]
				c := chunkCase{name: fmt.Sprintf("%s, %d bytes, %s", kind, n, name), method: Zlib, size: n}
				c.src = deflated(t, encoders[name], kinds[kind], []int{0, 0, 1 + n/5}[turn%3])
				if turn%2 == 0 {
					c.method = Gzip // they decode either
				}
				if turn%5 == 0 && n%4 == 0 {
					c.typesize = []uint8{1, 2, 4}[turn%3]
				}
				cases = append(cases, c)
			}
		}
	}
	return cases
}

// What encoders write is decoded to the bytes that codec gives.
func TestInflate(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	cases := inflateCorpus(t)
	for i, c := range cases {
		if cases[i] = d.expect(t, c); cases[i].want == nil {
			t.Fatalf("%s: codec refuses it", c.name)
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// inflateAll decodes in batches.
func inflateAll(t *testing.T, m *machine, cases []chunkCase) {
	t.Helper()
	for some := range slices.Chunk(cases, 200) {
		decodeBy(t, m, kernelInflate, InflateBlock, some)
	}
}

// Blosc frames with zlib inside, of all shapes.
func TestInflateBlosc(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	var cases []chunkCase
	for _, n := range []int{0, 1, 12, 127, 500, 4003, 20_000} {
		for kind, data := range samples(n) {
			for _, typesize := range []int{1, 2, 3, 4, 8, 16, 17} {
				shuffle := (n + typesize) % 3
				config := fmt.Sprintf(`{"cname":"zlib","shuffle":%d,"typesize":%d,"blocksize":%d}`, shuffle, typesize, []int{0, 2048, 600 * typesize}[(n+typesize/2)%3])
				src, err := mustCodec(t, "blosc", config).Encode(nil, data)
				if err != nil {
					t.Fatal(err)
				}
				c := d.expect(t, chunkCase{name: fmt.Sprintf("%s %d %s", config, n, kind), method: BloscZlib, src: src, size: n})
				if c.want == nil {
					t.Fatalf("%s: codec refuses it", c.name)
				}
				cases = append(cases, c)
			}
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// goldenChunks are those of testdata/inflate.jsonl, with the bytes that they must give.
func goldenChunks(t testing.TB) (cases []chunkCase) {
	t.Helper()
	plain := map[string][]byte{}
	readLines(t, filepath.Join("testdata", "inflate.jsonl"), func(line []byte) {
		var g struct {
			Plain, Name, Of, Method string
			Bytes                   []byte
		}
		if err := json.Unmarshal(line, &g); err != nil {
			t.Fatal(err)
		}
		if g.Plain != "" {
			plain[g.Plain] = append([]byte{}, g.Bytes...)
			return
		}
		method := map[string]uint8{"zlib": Zlib, "gzip": Gzip, "blosc": BloscZlib}[g.Method]
		cases = append(cases, chunkCase{name: g.Name + " of " + g.Of, method: method, src: g.Bytes, size: len(plain[g.Of]), want: plain[g.Of]})
	})
	return cases
}

// What zlib and blosc wrote at settings that Go's encoders do not have; and what
// package codec has for its own tests, damaged ones among it.
func TestInflateGolden(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	cases := goldenChunks(t)
	if len(cases) < 180 {
		t.Fatalf("only %d chunks", len(cases))
	}
	for _, g := range goldenCases(t, "deflate.jsonl") {
		cases = append(cases, d.expect(t, chunkCase{name: g.Name, method: Gzip, src: g.Encoded, size: g.size(t)}))
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// bitWriter writes deflate by hand.
type bitWriter struct {
	out  []byte
	bits int
}

// put writes the low n bits, the lowest first.
func (w *bitWriter) put(v uint32, n int) *bitWriter {
	for i := range n {
		if w.bits%8 == 0 {
			w.out = append(w.out, 0)
		}
		w.out[w.bits/8] |= byte(v>>i&1) << (w.bits % 8)
		w.bits++
	}
	return w
}

// code writes a Huffman code, the highest bit first.
func (w *bitWriter) code(v uint32, n int) *bitWriter {
	for i := range n {
		w.put(v>>(n-1-i), 1)
	}
	return w
}

// fixed begins a block of fixed codes; symbol and match write in it.
func (w *bitWriter) fixed(last uint32) *bitWriter { return w.put(last, 1).put(1, 2) }

func (w *bitWriter) symbol(s uint32) *bitWriter {
	switch {
	case s < 144:
		return w.code(0x30+s, 8)
	case s < 256:
		return w.code(0x190+s-144, 9)
	case s < 280:
		return w.code(s-256, 7)
	}
	return w.code(0xc0+s-280, 8)
}

func (w *bitWriter) match(length, extra uint32, extraBits int, distance, more uint32, moreBits int) *bitWriter {
	return w.symbol(length).put(extra, extraBits).code(distance, 5).put(more, moreBits)
}

// lengths begins a block of dynamic codes: all code lengths have codes of four bits, but
// 16, 17 and 18, which have codes of five.
func (w *bitWriter) lengths(literals, distances int, symbols ...[2]uint32) *bitWriter {
	w.put(1, 1).put(2, 2).put(uint32(literals-257), 5).put(uint32(distances-1), 5).put(15, 4)
	for i := range 19 { // 16, 17, 18, 0, 8, 7, ...
		n := uint32(4)
		if i < 3 || i == 3 || i == 18 || i == 17 {
			n = 5
		}
		w.put(n, 3)
	}
	// Of four bits: 2 to 14; of five: 0, 1 and 15 to 18.
	for _, s := range symbols {
		switch v := s[0]; {
		case v >= 2 && v <= 14:
			w.code(v-2, 4)
		case v < 2:
			w.code(26+v, 5)
		default:
			w.code(28+v-15, 5)
		}
		if s[0] >= 16 {
			w.put(s[1], []int{2, 3, 7}[s[0]-16])
		}
	}
	return w
}

// zlib wraps it, with the checksum of what it decodes to, if it does.
func (w *bitWriter) zlib() []byte {
	plain, _ := io.ReadAll(flate.NewReader(bytes.NewReader(w.out))) // an error is the case's point
	return binary.BigEndian.AppendUint32(append([]byte{0x78, 0x9c}, w.out...), adler32.Checksum(plain))
}

// Streams that no encoder writes: right and wrong ones at the bounds of the format.
func TestInflateByHand(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	var cases []chunkCase
	add := func(name string, size int, w *bitWriter) {
		cases = append(cases, d.expect(t, chunkCase{name: name, method: Zlib, src: w.zlib(), size: size}))
	}
	begin := func() *bitWriter { return new(bitWriter).fixed(1).symbol('a').symbol('b').symbol('c') }
	for distance := range uint32(32) {
		more := max(0, int(distance)/2-1)
		w := begin().match(257, 0, 0, distance, 0, more).symbol(256)
		add(fmt.Sprintf("distance symbol %d", distance), 6, w)
	}
	for length := uint32(257); length < 288; length++ {
		extra := 0
		if length >= 265 && length < 285 {
			extra = int(length-261) / 4
		}
		for _, bits := range []uint32{0, 31} {
			w := begin().match(length, bits&(1<<extra-1), extra, 1, 0, 0).symbol(256)
			plain, _ := io.ReadAll(flate.NewReader(bytes.NewReader(w.out)))
			for over := range 3 {
				add(fmt.Sprintf("length symbol %d, %x, size %d", length, bits, over-1), len(plain)+over-1, w)
			}
		}
	}
	add("a block of type 3", 0, new(bitWriter).put(1, 1).put(3, 2))
	add("no end", 3, begin())
	add("an empty block first", 1, new(bitWriter).fixed(0).symbol(256).fixed(1).symbol('a').symbol(256))
	add("stored, then a match into it", 7, new(bitWriter).put(0, 8).put(4, 16).put(0xfffb, 16).put(0x61626364, 32).fixed(1).match(257, 0, 0, 3, 0, 0).symbol(256))
	add("stored, other complement", 4, new(bitWriter).put(1, 8).put(4, 16).put(0xfffa, 16).put(0x61626364, 32))
	add("stored, torn", 4, new(bitWriter).put(1, 8).put(4, 16).put(0xfffb, 16).put(0x616263, 24))
	none, all := [2]uint32{0, 0}, [2]uint32{18, 127}
	for _, c := range []struct {
		name                string
		literals, distances int
		symbols             [][2]uint32
		body                func(*bitWriter) *bitWriter
	}{
		{"one code of one bit", 257, 1, [][2]uint32{all, {18, 107}, {1, 0}, none}, func(w *bitWriter) *bitWriter { return w.code(0, 1) }},
		{"the other code of one bit", 257, 1, [][2]uint32{all, {18, 107}, {1, 0}, none}, func(w *bitWriter) *bitWriter { return w.code(1, 1) }},
		{"one code of two bits", 257, 1, [][2]uint32{all, {18, 107}, {2, 0}, none}, func(w *bitWriter) *bitWriter { return w.code(0, 2) }},
		{"no codes", 257, 1, [][2]uint32{all, {18, 108}, none}, func(w *bitWriter) *bitWriter { return w.code(0, 8) }},
		{"a match without distance codes", 258, 1, [][2]uint32{{1, 0}, {18, 126}, {18, 107}, {2, 0}, {2, 0}, none}, func(w *bitWriter) *bitWriter { return w.code(0, 1).code(3, 2).code(0, 4) }},
		{"a distance of one bit", 258, 1, [][2]uint32{{1, 0}, all, {18, 106}, {2, 0}, {2, 0}, {1, 0}}, func(w *bitWriter) *bitWriter { return w.code(0, 1).code(3, 2).code(0, 1).code(2, 2) }},
		{"the other distance of one bit", 258, 1, [][2]uint32{{1, 0}, all, {18, 106}, {2, 0}, {2, 0}, {1, 0}}, func(w *bitWriter) *bitWriter { return w.code(0, 1).code(3, 2).code(1, 1).code(2, 2) }},
		{"repeats before anything", 257, 1, [][2]uint32{{16, 0}, all, all}, nil},
		{"repeats from one alphabet to the other", 258, 2, [][2]uint32{{1, 0}, all, {18, 106}, {2, 0}, {2, 0}, {16, 0}}, nil},
		{"two repeats from one to the other", 258, 2, [][2]uint32{{3, 0}, {18, 127}, {18, 105}, {2, 0}, {16, 1}}, func(w *bitWriter) *bitWriter { return w.code(6, 3).code(1, 2) }},
		{"too many lengths", 257, 1, [][2]uint32{all, all}, nil},
		{"too many codes", 257, 1, [][2]uint32{{1, 0}, {1, 0}, {1, 0}, all, {18, 104}, {1, 0}}, nil},
		{"287 literals", 287, 1, [][2]uint32{all, all, none}, nil},
		{"31 distances", 257, 31, [][2]uint32{all, all, all}, nil},
		{"no end of the block", 257, 1, [][2]uint32{{1, 0}, {1, 0}, all, {18, 106}, none}, func(w *bitWriter) *bitWriter { return w.code(0, 1).code(1, 1) }},
	} {
		w := new(bitWriter).lengths(c.literals, c.distances, c.symbols...)
		if c.body != nil {
			w = c.body(w)
		}
		for size := range 6 {
			add(fmt.Sprintf("%s, %d bytes", c.name, size), size, w)
		}
	}
	good := 0
	for _, c := range cases {
		if c.want != nil {
			good++
		}
	}
	if good < 60 || good > len(cases)-60 {
		t.Fatalf("%d of %d are right", good, len(cases))
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// Checksums: compared, unless they are not asked for.
func TestInflateChecksums(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	encoders := inflateEncoders()
	var cases []chunkCase
	for _, n := range []int{1, 15, 31, 32, 500, 4000, 40_000} {
		data := samples(n)["noise"]
		for _, kind := range []string{"zlib 5", "gzip 5"} {
			src := deflated(t, encoders[kind], data, 0)
			back := map[string]int{"zlib 5": 1, "gzip 5": 5}[kind]
			src[len(src)-back] ^= 4
			c := d.expect(t, chunkCase{name: fmt.Sprintf("%s of %d", kind, n), method: Zlib, src: src, size: n})
			if c.want != nil {
				t.Fatalf("%s: codec does not look at the checksum", c.name)
			}
			cases = append(cases, c)
			c.name += ", unchecked"
			c.flags, c.want = Unchecked, data
			cases = append(cases, c)
		}
	}
	// A name, a comment, other fields and the header's own checksum; members and what may follow
	// them.
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Name, w.Comment, w.Extra = "a name", string(bytes.Repeat([]byte("comment"), 20)), make([]byte, 300)
	if _, err := w.Write(samples(3000)["words"]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	member := out.Bytes()
	for n := range len(member) {
		cases = append(cases, d.expect(t, chunkCase{name: fmt.Sprintf("cut to %d", n), method: Gzip, src: member[:n], size: 3000}))
	}
	for name, tail := range map[string][]byte{"nothing": {}, "zeros": make([]byte, 50), "half a magic": {0x1f}, "a magic": {0x1f, 0x8b}, "a member": member} {
		for _, size := range []int{3000, 6000, 9000} {
			src := bytes.Join([][]byte{member, member, tail}, nil)
			cases = append(cases, d.expect(t, chunkCase{name: fmt.Sprintf("two members and %s, %d bytes", name, size), method: Gzip, src: src, size: size}))
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// inflateSeeds are short streams to be damaged.
func inflateSeeds(t testing.TB) (cases []chunkCase) {
	t.Helper()
	encoders := inflateEncoders()
	for _, n := range []int{60, 700, 5000} {
		data := zstdKinds(n)
		for i, kind := range slices.Sorted(maps.Keys(data)) {
			for _, encoder := range []string{"zlib 9", "klauspost 1", "zlib -2", "gzip 6"}[i%2*2:][:2] {
				cases = append(cases, chunkCase{name: encoder + " " + kind, method: Zlib, src: deflated(t, encoders[encoder], data[kind], n/2*(i%3)), size: n})
			}
		}
		src, err := mustCodec(t, "blosc", `{"cname":"zlib","shuffle":1,"typesize":2,"blocksize":512}`).Encode(nil, data["words"])
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, chunkCase{name: "blosc", method: BloscZlib, src: src, size: n})
	}
	return cases
}

// Damaged chunks: never a byte out of bounds, codec's verdict, and zeros where it
// is no. Checksums would hide most of it, so that many are not looked at: then what
// Go's decoder makes of the stream counts.
func TestInflateDamage(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(51, 52))
	var cases []chunkCase
	seeds := inflateSeeds(t)
	for i := range 4000 {
		c := damage(r, seeds[i%len(seeds)])
		c.name = fmt.Sprintf("%s, damage %d", c.name, i)
		if c.method == Zlib && i%3 != 0 && !bytes.HasPrefix(c.src, gzipMagic) {
			c = unchecked(c)
		} else {
			c = d.expect(t, c)
		}
		cases = append(cases, c)
	}
	refused := 0
	for _, c := range cases {
		if c.want == nil {
			refused++
		}
	}
	if refused < len(cases)/3 || refused > len(cases)*19/20 {
		t.Fatalf("%d of %d are refused: the damage is not varied", refused, len(cases))
	}
	onMachines(t, func(t *testing.T, m *machine) { inflateAll(t, m, cases) })
}

// unchecked is a zlib case without its checksum, as Go's inflate sees it.
func unchecked(c chunkCase) chunkCase {
	c.flags, c.want, c.foreign = Unchecked, nil, false
	if len(c.src) < 2 || c.src[0]&15 != 8 || c.src[0]>>4 > 7 || (int(c.src[0])<<8|int(c.src[1]))%31 != 0 || c.src[1]&0x20 != 0 {
		return c
	}
	in := bytes.NewReader(c.src[2:]) // of single bytes: what is left of it is behind the stream
	plain, err := io.ReadAll(io.LimitReader(kflate.NewReader(in), int64(c.size)+1))
	if err == nil && len(plain) == c.size && in.Len() >= 4 {
		c.want = append([]byte{}, plain...)
	}
	return c
}

// FuzzInflate holds what the kernel makes of any bytes against what codec, or without
// checksums Go's inflate, does.
func FuzzInflate(f *testing.F) {
	d := newDecoder(f)
	for _, c := range inflateSeeds(f) {
		if c.size <= 700 {
			f.Add(c.src, uint16(c.size), c.method == BloscZlib, false)
			f.Add(c.src, uint16(c.size), c.method == BloscZlib, true)
		}
	}
	m := start(f, oneThread)
	f.Fuzz(func(t *testing.T, src []byte, size uint16, blosc, raw bool) {
		c := chunkCase{name: "fuzz", method: Gzip, src: src, size: int(size)}
		switch {
		case blosc:
			c.method = BloscZlib
			c = d.expect(t, c)
		case raw && !bytes.HasPrefix(src, gzipMagic):
			c = unchecked(c)
		default:
			c = d.expect(t, c)
		}
		decodeBy(t, m, kernelInflate, InflateBlock, []chunkCase{c})
	})
}
