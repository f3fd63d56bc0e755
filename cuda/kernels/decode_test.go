package kernels

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/codec"
)

// A chunkCase is an encoded chunk and what package codec makes of it.
type chunkCase struct {
	name     string
	method   uint8
	typesize uint8
	flags    uint16
	src      []byte
	size     int    // decoded bytes that are asked for
	want     []byte // nil: codec refuses it
	foreign  bool   // codec decodes it, the device leaves it to the host
}

// decoder is codec's view of a chunk.
type decoder struct {
	lz4, blosc, zlib codec.Codec
	scratch          *codec.Scratch
}

func newDecoder(t testing.TB) *decoder {
	t.Helper()
	return &decoder{mustCodec(t, "lz4", ""), mustCodec(t, "blosc", ""), mustCodec(t, "zlib", ""), codec.NewScratch()}
}

func mustCodec(t testing.TB, name, config string) codec.Codec {
	t.Helper()
	var raw json.RawMessage
	if config != "" {
		raw = json.RawMessage(config)
	}
	c, err := codec.New(name, raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// expect completes a case by codec's answer.
func (d *decoder) expect(t testing.TB, c chunkCase) chunkCase {
	t.Helper()
	stages := []codec.Codec{d.lz4}
	switch c.method {
	case LZ4, Zlib, Gzip:
		if c.method != LZ4 {
			stages[0] = d.zlib
		}
		if c.typesize > 1 {
			stages = append(stages, mustCodec(t, "shuffle", fmt.Sprintf(`{"elementsize":%d}`, c.typesize)))
		}
	case Blosc, BloscZlib:
		stages[0] = d.blosc
		if len(c.src) > 3 && c.src[2]&2 == 0 {
			c.foreign = !slices.Contains(map[uint8][]byte{Blosc: {0, 1}, BloscZlib: {3}}[c.method], c.src[2]>>5)
		}
	case Unshuffle:
		stages[0] = mustCodec(t, "shuffle", fmt.Sprintf(`{"elementsize":%d}`, c.typesize))
	case Copy:
		if len(c.src) == c.size {
			c.want = c.src
		}
		return c
	}
	chain, err := codec.NewChain(stages, c.size)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chain.Decode(make([]byte, c.size), c.src, d.scratch); err == nil {
		c.want = bytes.Clone(got)
		if c.want == nil {
			c.want = []byte{}
		}
	}
	return c
}

// decodeAll decodes chunks in one launch and compares bytes and statuses.
func decodeAll(t *testing.T, m *machine, cases []chunkCase) {
	t.Helper()
	decodeBy(t, m, kernelDecode, DecodeBlock, cases)
}

// decodeBy is decodeAll by a kernel that takes DecodeParams.
func decodeBy(t *testing.T, m *machine, kernel, block int, cases []chunkCase) {
	t.Helper()
	status := bytes.Repeat([]byte{0xee}, 4*len(cases))
	buffers := [][]byte{nil, status}
	var table []byte
	for i, c := range cases {
		at := len(buffers)
		dst := bytes.Repeat([]byte{0xee}, c.size)
		lead := i % 5 // sources begin anywhere
		src := append(bytes.Repeat([]byte{0xff}, lead), c.src...)
		buffers = append(buffers, src, dst, make([]byte, c.size))
		table = Chunk{
			Src: place(at, lead), Dst: place(at+1, 0), Scratch: place(at+2, 0),
			SrcBytes: uint32(len(c.src)), DstBytes: uint32(c.size), Status: uint32(i), Method: c.method, Typesize: c.typesize, Flags: c.flags,
		}.Append(table)
	}
	buffers[0] = table
	params := DecodeParams{Chunks: place(0, 0), Status: place(1, 0), N: uint32(len(cases))}.Append(nil)
	m.run(t, kernel, 3, block, params, buffers)
	for i, c := range cases {
		c.check(t, binary.LittleEndian.Uint32(status[4*i:]), buffers[3+3*i])
	}
}

func (c chunkCase) check(t *testing.T, status uint32, dst []byte) {
	t.Helper()
	switch {
	case status == OK && c.want == nil:
		t.Errorf("%s: decoded, codec refuses it", c.name)
	case status == OK && !bytes.Equal(dst, c.want):
		t.Errorf("%s: other bytes", c.name)
	case status != OK && !bytes.Equal(dst, make([]byte, c.size)):
		t.Errorf("%s: status %d and dst is not zero", c.name, status)
	case status == Unsupported && c.want != nil && !c.foreign:
		t.Errorf("%s: left to the host", c.name)
	case status == Corrupt && c.want != nil:
		t.Errorf("%s: corrupt, codec decodes it", c.name)
	case status > Unsupported:
		t.Errorf("%s: status %d", c.name, status)
	}
}

// samples are the kinds of bytes that chunks hold.
func samples(n int) map[string][]byte {
	r := rand.New(rand.NewPCG(11, 12))
	out := map[string][]byte{"noise": randomBytes(r, n), "zeros": make([]byte, n)}
	smooth, words := make([]byte, 0, n+8), make([]byte, 0, n+64)
	for i := 0; len(smooth) < n; i++ {
		smooth = binary.LittleEndian.AppendUint16(smooth, uint16(100+i/40%60+r.IntN(9)))
	}
	vocabulary := randomBytes(r, 300)
	for len(words) < n { // matches of all lengths and distances, close ones too
		k := r.IntN(40)
		if r.IntN(12) == 0 {
			k = r.IntN(len(vocabulary))
		}
		at := r.IntN(len(vocabulary) - k + 1)
		words = append(words, vocabulary[at:at+k]...)
		if r.IntN(3) == 0 {
			words = append(words, bytes.Repeat(vocabulary[at:at+1+r.IntN(3)], r.IntN(80))...)
		}
	}
	out["smooth"], out["words"] = smooth[:n], words[:n]
	return out
}

// encodings are real encodings, by codec's encoders, of every shape of frame.
func encodings(t testing.TB, d *decoder) []chunkCase {
	t.Helper()
	var cases []chunkCase
	for _, n := range []int{0, 1, 12, 127, 500, 4003, 20_000, 70_001} {
		for kind, data := range samples(n) {
			add := func(method uint8, typesize int, name, config string) {
				src, err := mustCodec(t, name, config).Encode(nil, data)
				if err != nil {
					t.Fatal(err)
				}
				cases = append(cases, d.expect(t, chunkCase{
					name: fmt.Sprintf("%s %s typesize %d, %d %s", name, config, typesize, n, kind), method: method, typesize: uint8(typesize), src: src, size: n,
				}))
			}
			add(LZ4, 0, "lz4", "")
			for i, typesize := range []int{1, 2, 3, 4, 8, 255} { // plain bytes do as shuffled ones
				if n < 20_000 || i == n%3 { // fibers are slow
					add(LZ4, typesize, "lz4", "")
				}
			}
			for i, typesize := range []int{1, 2, 3, 4, 7, 8, 16, 17} {
				if n >= 20_000 && i%3 != (n+len(kind))%3 {
					continue
				}
				add(Unshuffle, typesize, "shuffle", fmt.Sprintf(`{"elementsize":%d}`, typesize))
				for shuffle := range 3 {
					blocksize := []int{0, 0, 2048, 600 * typesize}[(n+typesize+shuffle)%4]
					cname := []string{"lz4", "lz4hc", "blosclz"}[(typesize+n)%3]
					add(Blosc, typesize, "blosc", fmt.Sprintf(`{"cname":%q,"shuffle":%d,"typesize":%d,"blocksize":%d}`, cname, shuffle, typesize, blocksize))
				}
			}
			cases = append(cases, d.expect(t, chunkCase{name: "copy", method: Copy, src: data, size: n}))
		}
	}
	return cases
}

// What codec encodes the kernels decode, to the same bytes.
func TestDecode(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	cases := encodings(t, d)
	for _, c := range cases {
		if c.want == nil {
			t.Fatalf("%s: codec refuses what it wrote", c.name)
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { decodeAll(t, m, m.thin(cases, 5000, 3)) })
}

// Frames that numcodecs wrote, and the damaged ones beside them.
func TestGolden(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	var cases []chunkCase
	for file, method := range map[string]uint8{"blosc": Blosc, "lz4": LZ4} {
		for _, g := range goldenCases(t, file+".jsonl") {
			if g.Header == nil {
				cases = append(cases, d.expect(t, chunkCase{name: file + " " + g.Name, method: method, src: g.Encoded, size: g.size(t)}))
			}
		}
	}
	good := 0
	for _, c := range cases {
		if c.want != nil && !c.foreign {
			good++
		}
	}
	if good < 40 {
		t.Fatalf("only %d of %d golden frames are for the device", good, len(cases))
	}
	onMachines(t, func(t *testing.T, m *machine) { decodeAll(t, m, cases) })
}

// Blocks at the bounds: each length once as long as there is room for, and once a
// byte more. Each runs in memory of exactly its size.
func TestBounds(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	var cases []chunkCase
	add := func(name string, size int, block ...byte) {
		src := append(binary.LittleEndian.AppendUint32(nil, uint32(size)), block...)
		cases = append(cases, d.expect(t, chunkCase{name: fmt.Sprintf("%s, %d bytes", name, size), method: LZ4, src: src, size: size}))
		// The same as the only stream of a blosc frame.
		if size < 2 || len(block) == size {
			return
		}
		frame := []byte{2, 1, 1<<5 | 0x10, 1}
		for _, n := range []int{size, size, 24 + len(block)} {
			frame = binary.LittleEndian.AppendUint32(frame, uint32(n))
		}
		frame = binary.LittleEndian.AppendUint32(frame, 20)
		frame = append(binary.LittleEndian.AppendUint32(frame, uint32(len(block))), block...)
		for _, short := range []int{0, 1, 2, 4} {
			c := chunkCase{name: fmt.Sprintf("blosc %s, %d bytes, cut by %d", name, size, short), method: Blosc, size: size}
			c.src = bytes.Clone(frame[:len(frame)-short])
			binary.LittleEndian.PutUint32(c.src[12:], uint32(len(c.src)))
			cases = append(cases, d.expect(t, c))
		}
	}
	literals := bytes.Repeat([]byte("abcdefgh"), 100)
	for _, n := range []int{1, 14, 15, 32, 33, 700} {
		head := []byte{byte(min(n, 15) << 4)}
		for rest := n - 15; rest >= 0; rest -= 255 {
			head = append(head, byte(min(rest, 255)))
		}
		head = append(head, literals[:n]...)
		for _, over := range []int{-1, 0, 1} {
			add("literals", n+over, head...)
			add("literals torn", n+over, head[:len(head)-1]...)
			for _, length := range []int{4, 18, 19, 33, 600, 3000} {
				for _, distance := range []int{0, 1, 3, 7, 31, 32, n - 1, n, n + 1} {
					block := bytes.Clone(head)
					block[0] |= byte(min(length-4, 15))
					block = append(block, byte(distance), byte(distance>>8))
					for rest := length - 19; rest >= 0; rest -= 255 {
						block = append(block, byte(min(rest, 255)))
					}
					add(fmt.Sprintf("%d literals, match of %d at %d", n, length, distance), n+length+over, block...)
					if n < 15 && length < 19 { // a usual sequence, if enough comes behind it
						more := append(append(slices.Clip(block), 15<<4, 40-15), literals[:40]...)
						add(fmt.Sprintf("%d literals, match of %d at %d, literals", n, length, distance), n+length+40+over, more...)
						add(fmt.Sprintf("%d literals, match of %d at %d, no room", n, length, distance), n+length+over, more...)
					}
					add(fmt.Sprintf("%d literals, match of %d at %d, torn", n, length, distance), n+length+over, block[:len(block)-1]...)
				}
			}
		}
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for some := range slices.Chunk(cases, 2000) {
			decodeAll(t, m, some)
		}
	})
}

// Sequences of all kinds one after the other, near and far, so that output and
// block move through shared memory many times.
func TestSequences(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(31, 32))
	var cases []chunkCase
	for i := range 12 {
		block, size := randomBlock(r, 40_000+r.IntN(40_000), i%4)
		src := append(binary.LittleEndian.AppendUint32(nil, uint32(size)), block...)
		c := d.expect(t, chunkCase{name: fmt.Sprintf("block %d", i), method: LZ4, src: src, size: size})
		if c.want == nil {
			t.Fatalf("%s: codec refuses it", c.name)
		}
		cases = append(cases, c)
	}
	onMachines(t, func(t *testing.T, m *machine) { decodeAll(t, m, cases) })
}

// randomBlock is a block of about n bytes decoded. rare is how rarely a length is long:
// never if it is 0.
func randomBlock(r *rand.Rand, n, rare int) (block []byte, size int) {
	long := func(most int) int {
		if rare > 0 && r.IntN(20*rare*rare) == 0 {
			return r.IntN(most)
		}
		return 0
	}
	extend := func(rest int) {
		for ; rest >= 255; rest -= 255 {
			block = append(block, 255)
		}
		block = append(block, byte(rest))
	}
	for last := false; !last; {
		last = size >= n
		literals, length := 1+r.IntN(5)+long(5000), r.IntN(12)+long(4000)
		token := byte(min(literals, 15) << 4)
		if !last {
			token |= byte(min(length, 15))
		}
		block = append(block, token)
		if literals >= 15 {
			extend(literals - 15)
		}
		block = append(block, randomBytes(r, literals)...)
		size += literals
		if last {
			break
		}
		distance := 1 + r.IntN(min(size, []int{8, 300, 6000, 65535}[r.IntN(4)]))
		block = binary.LittleEndian.AppendUint16(block, uint16(distance))
		if length >= 15 {
			extend(length - 15)
		}
		size += length + 4
	}
	return block, size
}

// seeds are short encodings to be damaged.
func seeds(t testing.TB) []chunkCase {
	t.Helper()
	var out []chunkCase
	for _, n := range []int{60, 700} {
		data := samples(n)
		for _, kind := range []string{"words", "smooth", "zeros"} {
			for _, s := range []struct {
				method       uint8
				name, config string
			}{
				{LZ4, "lz4", ""},
				{Blosc, "blosc", `{"cname":"lz4","shuffle":1,"typesize":2,"blocksize":256}`},
				{Blosc, "blosc", `{"cname":"lz4","shuffle":2,"typesize":4,"blocksize":512}`},
				{Blosc, "blosc", `{"cname":"lz4","shuffle":0,"typesize":1,"blocksize":300}`},
			} {
				src, err := mustCodec(t, s.name, s.config).Encode(nil, data[kind])
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, chunkCase{name: s.name + s.config + kind, method: s.method, src: src, size: n})
			}
		}
	}
	return out
}

// damage is a copy of a case with bytes changed, cut off or put in.
func damage(r *rand.Rand, c chunkCase) chunkCase {
	c.src = bytes.Clone(c.src)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(c.src))
		switch r.IntN(6) {
		case 0:
			c.src[at] = byte(r.Uint32())
		case 1:
			c.src[at] ^= 1 << r.IntN(8)
		case 2:
			c.src[at] = []byte{0, 0xff, 0x0f, 0xf0, 0x80}[r.IntN(5)]
		case 3:
			c.src = c.src[:at+1]
		case 4:
			c.src = append(c.src[:at:at], append(randomBytes(r, r.IntN(5)), c.src[at:]...)...)
		case 5:
			c.size = max(0, c.size+r.IntN(9)-4)
		}
	}
	return c
}

// Damaged chunks: never a byte out of bounds, codec's verdict, and zeros where it
// is no. Every truncation, and thousands of random changes.
func TestDamage(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(21, 22))
	var cases []chunkCase
	for _, seed := range seeds(t) {
		for n := range min(len(seed.src), 200) {
			cut := seed
			cut.src = seed.src[:n]
			cut.name = fmt.Sprintf("%s cut to %d", seed.name, n)
			cases = append(cases, d.expect(t, cut))
		}
		for i := range 250 {
			c := damage(r, seed)
			c.name = fmt.Sprintf("%s damage %d", seed.name, i)
			cases = append(cases, d.expect(t, c))
		}
	}
	refused := 0
	for _, c := range cases {
		if c.want == nil {
			refused++
		}
	}
	if refused < len(cases)/2 || refused > len(cases)*99/100 {
		t.Fatalf("%d of %d are refused: the damage is not varied", refused, len(cases))
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for some := range slices.Chunk(cases, 500) {
			decodeAll(t, m, some)
		}
	})
}

// FuzzDecode holds the decoder's host build against codec.
func FuzzDecode(f *testing.F) {
	d := newDecoder(f)
	for _, c := range seeds(f)[:12] {
		f.Add(c.src, uint16(c.size), c.method, uint8(2))
	}
	m := start(f, oneThread)
	f.Fuzz(func(t *testing.T, src []byte, size uint16, method, typesize uint8) {
		c := chunkCase{name: "fuzz", method: 1 + method%4, typesize: typesize, src: src, size: int(size)}
		if c.method == Unshuffle && (typesize == 0 || len(src) != int(size)) {
			return // no shuffle has such a setting
		}
		decodeAll(t, m, []chunkCase{d.expect(t, c)})
	})
}
