package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/zarr"
)

// kernelForms are ways to store chunks that a GPU decodes by itself.
var kernelForms = []string{"lz4", "blosc", "blosc:blosclz", "blosc:zstd", "blosc:zlib", "shuffle", "shuffle+lz4", "zstd", "zstd:sum", "shuffle+zstd", "gzip", "shuffle+zlib", "crc32c", "zstd+crc32c", "shuffle+lz4+crc32c", "blosc+crc32c", "gzip+crc32c"}

// packed is an array in a form, of chunks that have something to decode.
func packed(t testing.TB, form string) *testArray {
	return makeArray(t, rand.New(rand.NewPCG(3, uint64(len(form)))), layout{
		shape: []int64{128, 128}, chunk: []int64{64, 32}, shard: []int64{128, 64}, dtype: nd.U16, codec: form, smooth: true,
	})
}

// boxes are n samples at random of 24 by 24 elements.
func boxes(r *rand.Rand, n int) (list []sampler.Sample) {
	for i := range n {
		y, x := r.Int64N(105), r.Int64N(105)
		list = append(list, sampler.Sample{ID: int64(i), Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 24}, {Start: x, Stop: x + 24}}}}})
	}
	return list
}

func packedConfig(a *testArray) Config {
	return Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 4,
		Fields: []Field{{Name: "x", Shape: []int{24, 24}, DType: nd.F32}},
	}
}

// Whatever the form, what is reused and what is kept: the kernels decode every chunk,
// and the batches are what the plain values say.
func TestKernelsDecode(t *testing.T) {
	for i, form := range kernelForms {
		a := packed(t, form)
		for _, reuse := range []Reuse{ReuseNone, ReuseBatch, ReuseWindow, ReuseCache} {
			kept := int64(i+int(reuse)) % 2 * mib
			t.Run(fmt.Sprint(form, " ", reuse, " ", kept), func(t *testing.T) {
				cfg := packedConfig(a)
				cfg.Reuse, cfg.SMs = reuse, int(reuse)%2
				cfg.DeviceBytes = 144 * mib // what is taken of the fake is written
				onFake(t, &cfg)
				cfg.CompressedBytes = kept
				p := openFor(t, cfg)
				compare(t, p, &cfg, []*testArray{a}, boxes(rand.New(rand.NewPCG(1, 2)), 40))
				s := p.Stats()
				if s.ChunksOnHost != 0 || s.ChunksRefused != 0 || s.ChunksDecoded == 0 {
					t.Errorf("of %d chunks %d on the host, %d refused", s.ChunksDecoded, s.ChunksOnHost, s.ChunksRefused)
				}
				if g := s.GPUDecode; g.Count == 0 || g.Count > s.Waves || g.Out != s.Decode.Out || g.In != s.Decode.In || g.Busy <= 0 {
					t.Errorf("%+v of the GPU, all of %+v", g, s.Decode)
				}
				if reuse == ReuseNone && (s.CompressedHits > 0) != (kept > 0 && form != "crc32c") { // plain bytes are not kept
					t.Errorf("%d of %d decodes from kept bytes", s.CompressedHits, s.ChunksDecoded)
				}
				checkIdle(t, p)
			})
		}
	}
}

func openFor(t *testing.T, cfg Config) *Pipeline {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// smallArena has zstd chunks of the device find no room in its work memory.
func (d *device) smallArena(t *testing.T) {
	t.Helper()
	room := d.stages[0].room
	work, err := d.workBytes(room)
	if err != nil {
		t.Fatal(err)
	}
	limits := d.zstdLimits(room)
	limits.Arena = 16
	for i := range d.calls {
		c := &d.calls[i]
		call, err := d.zstd.NewCall(limits, d.stages[0].in-cuda.Ptr(int64(len(d.calls)-i)*work))
		if err = errors.Join(err, c.call.Close()); err != nil {
			t.Fatal(err)
		}
		c.call = call
	}
}

// Chunks that the kernels refuse are the host's, wherever their bytes are: in the ring, in
// the page cache, or on the device, from where they do not come back: they are fetched.
func TestKernelsRefuse(t *testing.T) {
	for name, prepare := range map[string]func(*Config){
		"ring":   func(c *Config) { c.Reader, c.CompressedBytes = "ring", 1 },
		"kept":   func(c *Config) { c.Reader, c.CompressedBytes = "ring", mib },
		"mapped": func(c *Config) { c.Reader, c.CompressedBytes = "mapped", 1 },
	} {
		t.Run(name, func(t *testing.T) {
			a := packed(t, "zstd")
			cfg := packedConfig(a)
			cfg.Arrays = []ArrayRef{{URI: a.onDisk(t)}}
			cfg.Reuse = ReuseNone
			prepare(&cfg)
			onFake(t, &cfg)
			p := openFor(t, cfg)
			samples := boxes(rand.New(rand.NewPCG(1, 2)), 40)
			compare(t, p, &cfg, []*testArray{a}, samples)
			before := p.Stats()
			if before.ChunksRefused != 0 {
				t.Fatalf("%d chunks refused with room for all", before.ChunksRefused)
			}
			p.backend.(*device).smallArena(t)
			compare(t, p, &cfg, []*testArray{a}, samples)
			s := p.Stats()
			refused, decoded := s.ChunksRefused-before.ChunksRefused, s.ChunksDecoded-before.ChunksDecoded
			if refused != decoded || s.ChunksOnHost != refused || refused == 0 {
				t.Errorf("of %d chunks %d refused, %d decoded by the host", decoded, refused, s.ChunksOnHost)
			}
			if hits := s.CompressedHits - before.CompressedHits; (hits > 0) != (name == "kept") {
				t.Errorf("%d kept on the device", hits)
			}
			checkIdle(t, p)
		})
	}
}

// Without NoVerify a checksum that does not fit its chunk fails it; with it, the kernels
// do not look.
func TestKernelsVerify(t *testing.T) {
	for _, noVerify := range []bool{false, true} {
		a := makeArray(t, rand.New(rand.NewPCG(3, 1)), layout{shape: []int64{128, 128}, chunk: []int64{128, 64}, dtype: nd.U16, codec: "zstd:sum", smooth: true})
		for name, data := range a.files {
			if name != "zarr.json" {
				data[len(data)-1]++ // the checksum is last
			}
		}
		cfg := packedConfig(a)
		cfg.NoVerify = noVerify
		onFake(t, &cfg)
		p := openFor(t, cfg)
		samples := boxes(rand.New(rand.NewPCG(1, 2)), 4)
		if noVerify {
			compare(t, p, &cfg, []*testArray{a}, samples)
		} else {
			push(t, p, samples...)
			if _, err := p.Next(t.Context()); !errors.Is(err, nd.ErrCorrupt) {
				t.Errorf("verified: %v", err)
			}
		}
		checkIdle(t, p)
	}
}

// Memory of the kernels is taken for the arrays of Open. Later ones that need another
// are decoded by the host.
func TestLaterArraysWithoutKernels(t *testing.T) {
	for first, later := range map[string]string{"zstd": "blosc:zstd", "blosc": "zstd", "": "zstd", "lz4": "shuffle+lz4"} {
		a, b := packed(t, first), packed(t, later)
		cfg := packedConfig(a)
		onFake(t, &cfg)
		p := openFor(t, cfg)
		if _, err := p.AddArray(t.Context(), ArrayRef{URI: "b", Store: b.stored("b")}); err != nil {
			t.Fatal(err)
		}
		samples := boxes(rand.New(rand.NewPCG(1, 2)), 40)
		for i := range samples {
			samples[i].Crops[0].Array = i % 2
		}
		compare(t, p, &cfg, []*testArray{a, b}, samples)
		if s := p.Stats(); s.ChunksOnHost == 0 || s.ChunksRefused > 0 {
			t.Errorf("%q, later %q: %d chunks on the host, %d refused", first, later, s.ChunksOnHost, s.ChunksRefused)
		}
		checkIdle(t, p)
	}
}

// A stage has memory for what its arrays need, and no more.
func TestStagesHaveWhatArraysNeed(t *testing.T) {
	bytes := map[string]int64{}
	for _, form := range []string{"", "lz4", "blosc", "zstd"} {
		cfg := packedConfig(packed(t, form))
		onFake(t, &cfg)
		p := openFor(t, cfg)
		d := p.backend.(*device)
		for _, s := range d.stages {
			r := s.room
			if (r.scratch > 0) != (form == "blosc") || (len(d.calls) > 0) != (form == "zstd") {
				t.Errorf("%q: %+v, %d calls of zstd", form, r, len(d.calls))
			}
		}
		all, err := d.stageBytes(p.capacity.decoded)
		if err != nil {
			t.Fatal(err)
		}
		bytes[form] = all * 100 / p.capacity.decoded
		checkIdle(t, p)
	}
	if bytes[""] > bytes["blosc"] || bytes["blosc"] > bytes["zstd"] {
		t.Errorf("percent of the decoded bytes: %v", bytes)
	}
	large := room{chunks: deviceChunks, decoded: deviceWave}
	want, err := (&device{p: &Pipeline{}}).zstdLimits(large).Scratch()
	if err != nil || want > large.decoded*2 {
		t.Errorf("zstd works in %d bytes (%v) for %d", want, err, large.decoded)
	}
}

// A chunk of nothing but empty blocks never gets to a kernel.
func TestLongChunksAreTheHosts(t *testing.T) {
	r := &recipe{size: 1000, packing: pack(nil, true)}
	d := &decoders{zstd: true, scratch: true}
	for _, form := range kernelForms {
		r.packing = packedAs(form)
		if d.of(r, 1000) != byKernel || d.of(r, 1300) != byKernel || d.of(r, 1<<20) != byWorker || d.of(r, 1<<32) != byWorker {
			t.Errorf("%s: who decodes what is long", form)
		}
	}
}

func packedAs(form string) packing {
	l := layout{codec: form, dtype: nd.U16}
	stages := l.stages()
	slices.Reverse(stages)
	return pack(stages, true)
}

// What a chain of codecs is to the kernels.
func TestPack(t *testing.T) {
	f := func(form string, want packing) {
		t.Helper()
		if got := packedAs(form); got != want {
			t.Errorf("%q: %+v, want %+v", form, got, want)
		}
	}
	f("", packing{method: kernels.Copy})
	f("lz4", packing{method: kernels.LZ4})
	f("shuffle+lz4", packing{method: kernels.LZ4, typesize: 2})
	f("zstd", packing{method: kernels.Zstd})
	f("shuffle+zstd:sum", packing{method: kernels.Zstd, typesize: 2})
	f("shuffle", packing{method: kernels.Unshuffle, typesize: 2})
	f("blosc", packing{method: kernels.Blosc})
	f("blosc:lz4hc", packing{method: kernels.Blosc})
	f("blosc:blosclz", packing{method: kernels.Blosc})
	f("blosc:zstd", packing{method: kernels.BloscZstd})
	f("blosc:zlib", packing{method: kernels.BloscZlib})
	f("gzip", packing{method: kernels.Gzip})
	f("shuffle+zlib", packing{method: kernels.Zlib, typesize: 2})
	summed := func(p packing) packing {
		p.flags, p.sum = kernels.Summed, 4
		return p
	}
	f("crc32c", summed(packing{method: kernels.Copy}))
	f("zstd+crc32c", summed(packing{method: kernels.Zstd}))
	f("shuffle+gzip+crc32c", summed(packing{method: kernels.Gzip, typesize: 2}))
	host := packing{}
	f("crc32c+zstd", host)
	f("zstd+crc32c+crc32c", host)
	f("blosc:snappy", host)
	f("shuffle+blosc", host)
	f("shuffle+shuffle", host)
	f("zstd+lz4", host)
	f("lz4+shuffle", host)
	f("delta", host)
	for size, want := range map[string]uint8{`{}`: 4, `{"elementsize":0}`: 1, `{"elementsize":255}`: 255, `{"elementsize":256}`: 0, `{"elementsize":"2"}`: 0} {
		got := pack([]zarr.Codec{{Name: "lz4"}, {Name: "shuffle", Config: []byte(size)}}, false)
		if want == 0 && got != host || want > 0 && got != (packing{method: kernels.LZ4, typesize: want, flags: kernels.Unchecked}) {
			t.Errorf("elements of %s: %+v", size, got)
		}
	}
	if got := pack([]zarr.Codec{{Name: "blosc"}}, true); got.method != kernels.Blosc {
		t.Errorf("blosc without settings: %+v", got)
	}
}

// Two waves that are decoded beside each other share their time, and each counts from
// when its bytes are there.
func TestClock(t *testing.T) {
	c := newCube(t)
	onFake(t, &c.cfg)
	p := openFor(t, c.cfg)
	defer p.Close() //nolint:errcheck // the test is about what came before
	d := p.backend.(*device)
	pass := func(e *cuda.Event) {
		var list cuda.Commands
		list.Record(d.fetches, e)
		if err := d.gpu.Run(&list); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < 100*time.Microsecond; { // so that the clock goes on
		}
	}
	a, b, e := d.stages[0], d.stages[1], d.stages[2]
	events := []*cuda.Event{a.began, a.ended, b.began, e.began, b.ended, e.ended}
	for _, x := range events {
		pass(x)
	}
	between := func(i, j int) time.Duration {
		took, err := events[j].Since(events[i])
		if err != nil {
			t.Fatal(err)
		}
		return took
	}
	want := []time.Duration{between(0, 1), between(2, 4), between(4, 5)}
	var got []time.Duration
	for _, s := range d.stages[:3] {
		got = append(got, d.clock.add(s))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// A wave that ended before the one before it adds nothing.
	late := d.stages[0]
	pass(late.began)
	pass(late.ended)
	pass(b.began)
	pass(b.ended)
	if d.clock.add(b) <= 0 || d.clock.add(late) != 0 {
		t.Error("a wave within another's time adds to it")
	}
	for _, s := range d.stages {
		if s.ended == d.clock.latest {
			t.Error("a stage has the clock's event")
		}
	}
}

// Two waves that have the same memory to decode zstd in do it one after the other, and
// others wait for neither.
func TestCallsAreTakenInTurn(t *testing.T) {
	cfg := packedConfig(packed(t, "zstd"))
	onFake(t, &cfg).Lazy(true)
	p := openFor(t, cfg)
	defer p.Close() //nolint:errcheck // the test is about what came before
	d := p.backend.(*device)
	decode := func(s *stage) {
		s.commands.Record(s.compute, s.kept)
		if err := d.decodeZstd(s, s.table.at, 0); err != nil {
			t.Fatal(err)
		}
		s.commands.Record(s.compute, s.done)
		if err := s.run(d); err != nil {
			t.Fatal(err)
		}
	}
	first, other := d.stages[0], d.stages[1]
	decode(first)
	for range len(d.calls) {
		decode(other)
	}
	if err := other.done.Wait(); err != nil {
		t.Fatal(err)
	}
	if came, err := first.kept.Done(); !came || err != nil {
		t.Errorf("a wave decodes where another one still does (%v)", err)
	}
	decode(first)
	for range len(d.calls) - 1 {
		decode(other)
	}
	if err := other.done.Wait(); err != nil {
		t.Fatal(err)
	}
	if came, err := first.kept.Done(); came || err != nil {
		t.Errorf("a wave waits for another one's call (%v)", err)
	}
}
