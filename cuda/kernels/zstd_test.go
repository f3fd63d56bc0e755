package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/headrace/headrace/codec"
)

// zstdSource is a chunk for the kernels of zstd, of zstd frames if method is not set.
// size is how many bytes are asked for.
type zstdSource struct {
	name     string
	src      []byte
	size     int
	method   uint8
	typesize uint8
	flags    uint16
	foreign  bool // codec may decode it, the device leaves it to the host
}

// zstdOutcome is what the kernels made of it.
type zstdOutcome struct {
	status uint32
	dst    []byte
}

// zstdRoom is work memory for any chunks of so many bytes, so that no chunk is refused for it.
func zstdRoom(sources []zstdSource) (blocks int, arena int64) {
	for _, s := range sources {
		blocks += len(s.src)/3 + 1
		arena += int64(s.size)*4 + int64(len(s.src))*16 + 1<<14
	}
	return min(blocks, 1<<16), min(arena, 1<<27)
}

// decodeZstd decodes chunks in one launch.
func (m *machine) decodeZstd(t testing.TB, sources []zstdSource, blocks int, arena int64) []zstdOutcome {
	t.Helper()
	status := bytes.Repeat([]byte{0xee}, 4*len(sources))
	buffers := [][]byte{nil, status}
	var table []byte
	for i, s := range sources {
		at := len(buffers)
		lead := i % 7 // sources begin anywhere
		buffers = append(buffers, append(bytes.Repeat([]byte{0xff}, lead), s.src...), bytes.Repeat([]byte{0xee}, s.size), make([]byte, s.size))
		table = Chunk{
			Src: place(at, lead), Dst: place(at+1, 0), Scratch: place(at+2, 0), SrcBytes: uint32(len(s.src)), DstBytes: uint32(s.size), Status: uint32(i),
			Method: max(s.method, Zstd), Typesize: s.typesize, Flags: s.flags,
		}.Append(table)
	}
	buffers[0] = table
	params := ZstdParams{Chunks: place(0, 0), Status: place(1, 0), Arena: uint64(arena), N: uint32(len(sources)), Blocks: uint32(blocks)}
	params.Work = uint64(ZstdWorkBytes(blocks, arena)) // which the driver allocates
	m.run(t, kernelZstd|int(m.fill)<<8, 2, 0, params.Append(nil), buffers)
	var out []zstdOutcome
	for i := range sources {
		out = append(out, zstdOutcome{binary.LittleEndian.Uint32(status[4*i:]), buffers[3+3*i]})
	}
	return out
}

// zstdOracle is package codec's view of a chunk: libzstd's.
type zstdOracle struct {
	zstd, blosc codec.Codec
	scratch     *codec.Scratch
}

func newZstdOracle(t testing.TB) *zstdOracle {
	t.Helper()
	o := &zstdOracle{mustCodec(t, "zstd", ""), mustCodec(t, "blosc", ""), codec.NewScratch()}
	t.Cleanup(o.scratch.Close)
	return o
}

// decode gives nil if codec refuses the chunk.
func (o *zstdOracle) decode(t testing.TB, s zstdSource) []byte {
	t.Helper()
	stages := []codec.Codec{o.zstd}
	if s.method == BloscZstd {
		stages[0] = o.blosc
	} else if s.typesize > 1 {
		stages = append(stages, mustCodec(t, "shuffle", fmt.Sprintf(`{"elementsize":%d}`, s.typesize)))
	}
	chain, err := codec.NewChain(stages, s.size)
	if err != nil {
		t.Fatal(err)
	}
	got, err := chain.Decode(make([]byte, s.size), s.src, o.scratch)
	if err != nil {
		return nil
	}
	return append([]byte{}, got...)
}

// zstdCheck holds an outcome against codec's. Of frames that an encoder wrote, clean, none
// may be left to the host.
func zstdCheck(t testing.TB, s zstdSource, got zstdOutcome, want []byte, clean bool) {
	t.Helper()
	switch {
	case got.status > Unsupported:
		t.Errorf("%s: status %d", s.name, got.status)
	case got.status != OK && !bytes.Equal(got.dst, make([]byte, s.size)):
		t.Errorf("%s: status %d and dst is not zero", s.name, got.status)
	case got.status == OK && want == nil:
		t.Errorf("%s: decoded, codec refuses it", s.name)
	case got.status == OK && !bytes.Equal(got.dst, want):
		t.Errorf("%s: other bytes from %d on", s.name, firstDifference(got.dst, want))
	case got.status == Corrupt && want != nil:
		t.Errorf("%s: corrupt, codec decodes it", s.name)
	case got.status == Unsupported && clean && !s.foreign:
		t.Errorf("%s: left to the host", s.name)
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// zstdAll decodes in batches on a machine and checks each chunk.
func zstdAll(t *testing.T, m *machine, o *zstdOracle, sources []zstdSource, clean bool) {
	t.Helper()
	const batch = 64
	for ; len(sources) > 0; sources = sources[min(batch, len(sources)):] {
		some := sources[:min(batch, len(sources))]
		blocks, arena := zstdRoom(some)
		for i, got := range m.decodeZstd(t, some, blocks, arena) {
			zstdCheck(t, some[i], got, o.decode(t, some[i]), clean)
		}
	}
}

// zstdKinds are n bytes of the kinds that exercise each mode of the format.
func zstdKinds(n int) map[string][]byte {
	r := rand.New(rand.NewPCG(21, uint64(n)))
	out := samples(n)
	half := make([]byte, 0, n+2)
	for len(half) < n {
		v := uint16(0)
		if r.IntN(2) == 0 {
			v = uint16(r.Uint32())
		}
		half = binary.LittleEndian.AppendUint16(half, v)
	}
	out["half"] = half[:n]
	planes := make([]byte, n)
	for i := range n / 2 {
		planes[i], planes[n/2+i] = half[2*i], half[2*i+1]
	}
	out["planes"] = planes
	two, few, geometric := make([]byte, n), make([]byte, n), make([]byte, n)
	for i := range n {
		two[i] = byte(r.IntN(2))
		few[i] = byte(128 + 9*r.NormFloat64())
		for geometric[i] < 200 && r.IntN(3) > 0 {
			geometric[i]++
		}
	}
	out["two"], out["few"], out["geometric"] = two, few, geometric
	labels := make([]byte, 0, n+64)
	for len(labels) < n {
		v := r.IntN(40)
		for range 1 + r.IntN(15) {
			labels = binary.LittleEndian.AppendUint32(labels, uint32(v))
		}
	}
	out["labels"] = labels[:n]
	runs := make([]byte, 0, n+64) // matches that repeat their first bytes, short and long ones
	for len(runs) < n {
		distance := 1 + r.IntN(9)
		runs = append(runs, randomBytes(r, distance+r.IntN(4))...)
		for range 3 + r.IntN(24) {
			runs = append(runs, runs[len(runs)-distance])
		}
	}
	out["runs"] = runs[:n]
	out["period"] = bytes.Repeat(randomBytes(r, 37), n/37+1)[:n]
	return out
}

// encodedBy encodes with libzstd through package codec (klauspost's in builds without cgo).
func encodedBy(t testing.TB, data []byte, level int, checksum bool) []byte {
	t.Helper()
	src, err := mustCodec(t, "zstd", fmt.Sprintf(`{"level":%d,"checksum":%v}`, level, checksum)).Encode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// flushed is a frame without content size, of blocks that end where the writer was flushed: they
// use tables again, and some are tiny.
func flushed(t testing.TB, data []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithEncoderCRC(level%2 == 0))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, uint64(len(data))))
	for len(data) > 0 {
		n := min(len(data), []int{1, 100, 3000, 20_000, 70_000}[r.IntN(5)])
		if _, err := w.Write(data[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		data = data[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zstdCorpus is what encoders write: of each size and kind a few levels, in turn.
func zstdCorpus(t testing.TB) (sources []zstdSource) {
	t.Helper()
	levels := []int{-7, 1, 2, 3, 5, 7, 9, 13, 16, 19, 22}
	sizes := []int{0, 1, 2, 3, 5, 8, 20, 63, 65, 255, 256, 257, 700, 1023, 1025, 4096, 20_000, 65_536, 131_071, 131_073, 262_144}
	turn := 0
	add := func(name string, n int, src []byte) {
		sources = append(sources, zstdSource{name: fmt.Sprintf("%s, %d bytes", name, n), src: src, size: n})
	}
	for _, n := range sizes {
		kinds := zstdKinds(n)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			turn++
			if n > 20_000 && turn%4 != 0 {
				continue
			}
			for k := range 3 {
				level := levels[(turn+4*k)%len(levels)]
				if n > 20_000 && k > 0 {
					break
				}
				add(fmt.Sprintf("%s at level %d", kind, level), n, encodedBy(t, kinds[kind], level, turn%3 == 0))
			}
			if n > 0 && n <= 131_073 {
				level := 1 + turn%4
				add(fmt.Sprintf("%s, flushed, at klauspost's level %d", kind, level), n, flushed(t, kinds[kind], level))
			}
		}
	}
	return sources
}

// What encoders write is decoded, on the device, to the bytes that libzstd gives.
func TestZstd(t *testing.T) {
	o := newZstdOracle(t)
	sources := zstdCorpus(t)
	for _, s := range sources {
		if o.decode(t, s) == nil {
			t.Fatalf("%s: codec refuses it", s.name)
		}
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, true) })
}

// Frames that libzstd wrote for the tests of package codec, and the damaged ones
// beside them.
func TestZstdGolden(t *testing.T) {
	o := newZstdOracle(t)
	var good, bad []zstdSource
	for _, g := range goldenCases(t, "zstd.jsonl") {
		s := zstdSource{name: g.Name, src: g.Encoded, size: g.size(t)}
		if o.decode(t, s) != nil {
			good = append(good, s)
		} else {
			bad = append(bad, s)
		}
	}
	if len(good) < 40 {
		t.Fatalf("only %d good frames", len(good))
	}
	onMachines(t, func(t *testing.T, m *machine) {
		zstdAll(t, m, o, good, true)
		zstdAll(t, m, o, bad, false)
	})
}

// Frames one after the other, skippable ones among them, sizes that are not those of the frames,
// and checksums that are wrong.
func TestZstdFrames(t *testing.T) {
	o := newZstdOracle(t)
	a, b := zstdKinds(5000)["words"], zstdKinds(3001)["smooth"]
	frame := func(data []byte) []byte { return encodedBy(t, data, 3, true) }
	skippable := func(n int) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{0x53, 0x2A, 0x4D, 0x18}, uint32(n)), make([]byte, n)...)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	damagedSum := func() []byte {
		f := bytes.Clone(frame(a))
		f[len(f)-1]++
		return f
	}()
	sources := []zstdSource{
		{name: "two frames", src: join(frame(a), frame(b)), size: 8001},
		{name: "among skippable ones", src: join(skippable(5), frame(a), skippable(0), frame(nil), frame(b), skippable(100)), size: 8001},
		{name: "only skippable", src: skippable(9), size: 0},
		{name: "only skippable, bytes wanted", src: skippable(9), size: 1},
		{name: "skippable, torn", src: skippable(9)[:16], size: 0},
		{name: "nothing", src: nil, size: 0},
		{name: "a byte less than wanted", src: frame(a), size: 5001},
		{name: "a byte more than wanted", src: frame(a), size: 4999},
		{name: "wrong checksum", src: damagedSum, size: 5000},
		{name: "wrong checksum of the second", src: join(frame(b), damagedSum), size: 8001},
		{name: "bytes behind", src: join(frame(a), []byte{1, 2, 3}), size: 5000},
		{name: "legacy", src: []byte{0x26, 0xB5, 0x2F, 0xFD, 0, 0, 0, 0, 0}, size: 5},
		{name: "dictionary", src: []byte{0x28, 0xB5, 0x2F, 0xFD, 0x21, 7, 0, 1, 0, 0}, size: 0},
		{name: "reserved bit", src: []byte{0x28, 0xB5, 0x2F, 0xFD, 0x28, 0, 1, 0, 0}, size: 0},
		{name: "reserved block", src: []byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 7, 0, 0}, size: 0},
		{name: "window of 2^41", src: []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 31 << 3, 1, 0, 0}, size: 0},
	}
	for cut := range 40 {
		sources = append(sources, zstdSource{name: fmt.Sprintf("cut at %d", cut), src: frame(b)[:cut], size: 3001})
	}
	onMachines(t, func(t *testing.T, m *machine) {
		zstdAll(t, m, o, sources, false)
		unchecked := zstdSource{name: "wrong checksum, unchecked", src: damagedSum, size: 5000, flags: Unchecked}
		blocks, arena := zstdRoom([]zstdSource{unchecked})
		got := m.decodeZstd(t, []zstdSource{unchecked}, blocks, arena)[0]
		zstdCheck(t, unchecked, got, a, true)
		for i, got := range m.decodeZstd(t, sources, blocks, 1<<24) {
			want := OK
			switch s := sources[i]; {
			case s.name == "legacy" || s.name == "dictionary" || s.name == "window of 2^41":
				want = Unsupported
			case o.decode(t, s) == nil:
				want = Corrupt
			}
			if got.status != want {
				t.Errorf("%s: status %d, expected %d", sources[i].name, got.status, want)
			}
		}
	})
}

// A chunk that finds no room in the work memory is left to the host; the others are
// decoded.
func TestZstdRoom(t *testing.T) {
	o := newZstdOracle(t)
	var sources []zstdSource
	for i := range 20 {
		sources = append(sources, zstdSource{name: fmt.Sprint(i), src: encodedBy(t, zstdKinds(20_000)["words"], 3, false), size: 20_000})
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for _, room := range []struct {
			blocks int
			arena  int64
		}{{0, 1 << 24}, {7, 1 << 24}, {1000, 0}, {1000, 60_000}} {
			decoded := 0
			for i, got := range m.decodeZstd(t, sources, room.blocks, room.arena) {
				zstdCheck(t, sources[i], got, o.decode(t, sources[i]), false)
				if got.status == OK {
					decoded++
				}
			}
			if some := room.blocks > 0 && room.arena > 0; decoded == len(sources) || (decoded > 0) != some {
				t.Errorf("%+v: %d of %d decoded", room, decoded, len(sources))
			}
		}
	})
}

// zstdDamage flips a few bits or sets bytes of a frame, mostly near its begin, or cuts it.
func zstdDamage(r *rand.Rand, src []byte) []byte {
	out := bytes.Clone(src)
	if r.IntN(6) == 0 {
		out = out[:r.IntN(len(out))+1]
	}
	for range r.IntN(4) {
		at := r.IntN(min(len(out), []int{16, 60, 300, 1 << 30}[r.IntN(4)]))
		if r.IntN(2) == 0 {
			out[at] ^= 1 << r.IntN(8)
		} else {
			out[at] = byte(r.Uint32())
		}
	}
	return out
}

// Damaged frames are refused if codec refuses them, and never do harm.
func TestZstdDamage(t *testing.T) {
	o := newZstdOracle(t)
	r := rand.New(rand.NewPCG(41, 42))
	var frames, sources []zstdSource
	for _, n := range []int{20, 300, 1500, 5000} {
		for kind, data := range zstdKinds(n) {
			frames = append(frames, zstdSource{name: kind, src: encodedBy(t, data, 1+r.IntN(19), r.IntN(4) == 0), size: n},
				zstdSource{name: kind, src: flushed(t, data, 1+r.IntN(4)), size: n})
		}
	}
	for i := range 3000 {
		f := frames[r.IntN(len(frames))]
		sources = append(sources, zstdSource{name: fmt.Sprintf("%s of %d, damage %d", f.name, f.size, i), src: zstdDamage(r, f.src), size: f.size})
	}
	onMachines(t, func(t *testing.T, m *machine) { zstdAll(t, m, o, sources, false) })
}

// FuzzZstd holds what the kernels make of any bytes against what codec does.
func FuzzZstd(f *testing.F) {
	o := newZstdOracle(f)
	for _, n := range []int{1, 20, 300, 1500} {
		for _, data := range zstdKinds(n) {
			f.Add(encodedBy(f, data, 3, n == 20), uint16(n))
			f.Add(encodedBy(f, data, 19, false), uint16(n))
			f.Add(flushed(f, data, 1), uint16(n))
		}
	}
	m := start(f, oneThread)
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		sources := []zstdSource{{name: "fuzz", src: src, size: int(size)}}
		blocks, arena := zstdRoom(sources)
		zstdCheck(t, sources[0], m.decodeZstd(t, sources, blocks, arena)[0], o.decode(t, sources[0]), false)
	})
}
