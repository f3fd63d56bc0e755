package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// foreignToZstd reports whether the streams of a blosc frame are not for the kernels of zstd.
func foreignToZstd(src []byte) bool {
	return len(src) > 3 && src[2]&2 == 0 && src[2]>>5 != 4
}

func bloscZstd(name string, src []byte, size int) zstdSource {
	return zstdSource{name: name, src: src, size: size, method: BloscZstd, foreign: foreignToZstd(src)}
}

// goldenBlosc are frames that c-blosc wrote for the tests of package codec.
func goldenBlosc(t testing.TB) (sources []zstdSource) {
	t.Helper()
	for _, g := range goldenCases(t, "blosc.jsonl") {
		if g.Header == nil {
			sources = append(sources, bloscZstd(g.Name, g.Encoded, g.size(t)))
		}
	}
	return sources
}

// A bloscFrame is put together in a test as no encoder would. Its streams are what blocks
// decode to before anything is unshuffled.
type bloscFrame struct {
	flags, typesize  byte
	blocksize        int
	decoded          []byte
	encode           func(stream []byte) []byte
	backwards, apart bool // blocks lie in the other order, with bytes between them
}

func (f bloscFrame) streams(length int) int {
	if f.flags&0x10 == 0 && length == f.blocksize && f.typesize <= 16 && length/int(f.typesize) >= 128 {
		return int(f.typesize)
	}
	return 1
}

// block is a block with the lengths of its streams.
func (f bloscFrame) block(decoded []byte) (out []byte) {
	raw := len(decoded) / f.streams(len(decoded))
	for stream := range slices.Chunk(decoded, raw) {
		e := f.encode(stream)
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(e))), e...)
	}
	return out
}

func (f bloscFrame) bytes() []byte {
	blocks := slices.Collect(slices.Chunk(f.decoded, f.blocksize))
	starts, body := make([]int, len(blocks)), []byte(nil)
	for k := range blocks {
		i := k
		if f.backwards {
			i = len(blocks) - 1 - k
		}
		if f.apart {
			body = append(body, 1, 2, 3)
		}
		starts[i] = 16 + 4*len(blocks) + len(body)
		body = append(body, f.block(blocks[i])...)
	}
	out := []byte{2, 1, f.flags, f.typesize}
	for _, n := range []int{len(f.decoded), f.blocksize, 16 + 4*len(blocks) + len(body)} {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	for _, s := range starts {
		out = binary.LittleEndian.AppendUint32(out, uint32(s))
	}
	return append(out, body...)
}

const zstdStreams = 4 << 5 // in the flags of a frame

// bloscShapes are frames with zstd inside of all shapes: split or not, shuffled in each way or not,
// with short last blocks, streams stored and encoded, in blocks anywhere.
func bloscShapes(t testing.TB) (sources []zstdSource) {
	t.Helper()
	r := rand.New(rand.NewPCG(51, 52))
	turn := 0
	for _, n := range []int{1, 130, 1001, 5000, 40_000, 200_003} {
		kinds := zstdKinds(n)
		for _, shuffle := range []byte{0, 1, 4} {
			for _, typesize := range []byte{1, 2, 3, 4, 7, 8, 16, 17, 255} {
				for _, unsplit := range []byte{0, 0x10} {
					turn++
					if n > 5000 && turn%5 != 0 {
						continue
					}
					kind := []string{"words", "smooth", "planes", "noise", "zeros"}[turn%5]
					f := bloscFrame{
						flags: zstdStreams | shuffle | unsplit, typesize: typesize, decoded: kinds[kind],
						blocksize: min(n, []int{n, n/3 + 1, 128 * int(typesize), 4096 / int(typesize) * int(typesize), 70_000}[turn%5]),
						backwards: turn%3 == 0, apart: turn%4 == 0,
					}
					f.encode = func(stream []byte) []byte {
						if r.IntN(4) == 0 {
							return stream
						}
						return encodedBy(t, stream, 1+turn%12, turn%2 == 0)
					}
					if f.blocksize%f.streams(f.blocksize) != 0 {
						f.blocksize -= f.blocksize % int(typesize)
					}
					name := fmt.Sprintf("%s of %d, flags %#x, typesize %d, blocks of %d", kind, n, f.flags, typesize, f.blocksize)
					sources = append(sources, bloscZstd(name, f.bytes(), n))
				}
			}
		}
	}
	return sources
}

// Frames that c-blosc wrote, and the damaged ones beside them.
func TestBloscZstdGolden(t *testing.T) {
	o := newZstdOracle(t)
	var good, bad []zstdSource
	ours := 0
	for _, s := range goldenBlosc(t) {
		if o.decode(t, s) == nil {
			bad = append(bad, s)
			continue
		}
		good = append(good, s)
		if !s.foreign {
			ours++
		}
	}
	if ours < 80 {
		t.Fatalf("only %d good frames", ours)
	}
	onMachines(t, func(t *testing.T, m *machine) {
		zstdAll(t, m, o, good, true)
		zstdAll(t, m, o, bad, false)
	})
}

// Frames of every shape that the format has, whoever may have written them.
func TestBloscZstd(t *testing.T) {
	o := newZstdOracle(t)
	sources := bloscShapes(t)
	for _, s := range sources {
		if o.decode(t, s) == nil {
			t.Fatalf("%s: codec refuses it", s.name)
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, true) })
}

// What streams may hold and what they may not: frames of zstd that decode to just the length of the
// stream.
func TestBloscZstdStreams(t *testing.T) {
	o := newZstdOracle(t)
	data := zstdKinds(4096)["words"]
	skippable := append(binary.LittleEndian.AppendUint32([]byte{0x53, 0x2A, 0x4D, 0x18}, 5), make([]byte, 5)...)
	frame := func(b []byte) []byte { return encodedBy(t, b, 3, true) }
	var sources []zstdSource
	for _, c := range []struct {
		name   string
		encode func(stream []byte) []byte
	}{
		{"two frames", func(s []byte) []byte { return slices.Concat(frame(s[:100]), frame(s[100:])) }},
		{"skippable frames", func(s []byte) []byte { return slices.Concat(skippable, frame(s), skippable) }},
		{"an empty frame", func(s []byte) []byte { return slices.Concat(frame(nil), frame(s)) }},
		{"only skippable frames", func([]byte) []byte { return skippable }},
		{"only an empty frame", func([]byte) []byte { return frame(nil) }},
		{"a byte too few", func(s []byte) []byte { return frame(s[:len(s)-1]) }},
		{"a byte too many", func(s []byte) []byte { return frame(append(bytes.Clone(s), 1)) }},
		{"torn", func(s []byte) []byte { f := frame(s); return f[:len(f)-1] }},
		{"bytes behind", func(s []byte) []byte { return append(frame(s), 1, 2, 3) }},
		{"stored, a byte too few", func(s []byte) []byte { return s[:len(s)-1] }},
		{"dictionary", func([]byte) []byte { return []byte{0x28, 0xB5, 0x2F, 0xFD, 0x21, 7, 0, 1, 0, 0} }},
	} {
		for _, split := range []byte{0, 0x10} {
			turn := 0
			f := bloscFrame{flags: zstdStreams | 1 | split, typesize: 4, blocksize: 1024, decoded: data}
			f.encode = func(s []byte) []byte {
				if turn++; turn%3 == 2 {
					return c.encode(s)
				}
				return frame(s)
			}
			sources = append(sources, bloscZstd(fmt.Sprintf("%s, flags %#x", c.name, f.flags), f.bytes(), len(data)))
		}
	}
	onMachines(t, func(t *testing.T, m *machine) {
		zstdAll(t, m, o, sources, false)
		for i, s := range sources {
			good := i < 6
			if got := o.decode(t, s); (got != nil) != good {
				t.Errorf("%s: codec gives %d bytes", s.name, len(got))
			}
		}
	})
}

// What a header may say: every byte of it changed, and lengths that do not fit.
func TestBloscZstdHeaders(t *testing.T) {
	o := newZstdOracle(t)
	var sources []zstdSource
	for _, n := range []int{0, 100, 3000} {
		data := zstdKinds(n)["smooth"]
		src, err := mustCodec(t, "blosc", `{"cname":"zstd","shuffle":1,"typesize":2,"blocksize":1024}`).Encode(nil, data)
		if err != nil {
			t.Fatal(err)
		}
		add := func(name string, src []byte, size int) {
			sources = append(sources, bloscZstd(fmt.Sprintf("%s, %d bytes", name, n), src, size))
		}
		add("as it is", src, n)
		add("bytes behind", append(bytes.Clone(src), 7, 7), n)
		add("a byte less than wanted", src, n+1)
		add("a byte more than wanted", src, max(0, n-1))
		for cut := range min(len(src), 60) {
			add(fmt.Sprintf("cut to %d", cut), src[:cut], n)
		}
		for at := range min(len(src), 40) {
			for _, v := range []byte{0, 1, 2, 3, 4, 16, 127, 128, 255, src[at] + 1, src[at] - 1, src[at] ^ 0x10} {
				c := bytes.Clone(src)
				c[at] = v
				add(fmt.Sprintf("byte %d is %d", at, v), c, n)
			}
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, false) })
}

// Damaged frames: a header, the lengths of streams or what they hold.
func TestBloscZstdDamage(t *testing.T) {
	o := newZstdOracle(t)
	r := rand.New(rand.NewPCG(61, 62))
	var frames, sources []zstdSource
	for _, s := range bloscShapes(t) {
		if s.size <= 5000 {
			frames = append(frames, s)
		}
	}
	for i := range 2000 {
		f := frames[r.IntN(len(frames))]
		sources = append(sources, bloscZstd(fmt.Sprintf("%s, damage %d", f.name, i), zstdDamage(r, f.src), f.size))
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, false) })
}

// Bytes that were shuffled before they were encoded are put together again.
func TestZstdTypesize(t *testing.T) {
	o := newZstdOracle(t)
	var sources []zstdSource
	for _, n := range []int{0, 1, 15, 1003, 70_001} {
		kinds := zstdKinds(n)
		for k, kind := range slices.Sorted(maps.Keys(kinds)) {
			data := kinds[kind]
			for i, typesize := range []uint8{0, 1, 2, 3, 4, 8, 16, 255} {
				if n > 20_000 && i%4 != k%4 {
					continue // each with some of the kinds
				}
				src := encodedBy(t, data, 1+n%5, false)
				sources = append(sources, zstdSource{name: fmt.Sprintf("%s of %d, typesize %d", kind, n, typesize), src: src, size: n, typesize: typesize})
			}
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, true) })
}

// FuzzBloscZstd holds what the kernels make of any bytes against what codec does.
func FuzzBloscZstd(f *testing.F) {
	o := newZstdOracle(f)
	for i, s := range bloscShapes(f) {
		if s.size <= 1001 && i%5 == 0 { // in two seconds there is no time for more
			f.Add(s.src, uint16(s.size))
		}
	}
	m := start(f, oneThread)
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		sources := []zstdSource{bloscZstd("fuzz", src, int(size))}
		blocks, arena := zstdRoom(sources)
		zstdCheck(t, sources[0], m.decodeZstd(t, sources, blocks, arena)[0], o.decode(t, sources[0]), false)
	})
}
