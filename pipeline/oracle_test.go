package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// expect is what a crop must look like in its tensor, worked out one element at
// a time from the plain values: the slow twin of plan and assemble together.
func expect(a *testArray, f *Field, array int, crop *sampler.Crop) []byte {
	to := f.DType
	if to == nd.Invalid {
		to = a.dtype
	}
	axes := f.Axes
	if axes == nil {
		for i := range f.Shape {
			axes = append(axes, i)
		}
	}
	outShape := make([]int64, len(axes))
	for i, ax := range axes {
		outShape[i] = int64(f.Shape[ax])
	}
	// Conversions have their own slow twin in package codec.
	conv, err := codec.Converter(a.dtype, to, false, f.affine(array))
	if err != nil {
		panic(err)
	}
	var out []byte
	eachCoord(outShape, func(at []int64) {
		src := make([]int64, len(axes))
		outside := false
		for i, ax := range axes {
			x := at[i]
			if crop.Flip>>ax&1 == 1 {
				x = int64(f.Shape[ax]) - 1 - x
			}
			x += crop.Box[ax].Start
			n := a.shape[ax]
			if x < 0 || x >= n {
				outside = true
				switch f.Pad {
				case PadEdge:
					x = min(max(x, 0), n-1)
				case PadReflect:
					x = foldSlowly(x, n)
				}
			}
			src[ax] = x
		}
		elem := make([]byte, to.Size())
		if outside && f.Pad == PadFill {
			copy(elem, padded(to, f.PadValue))
		} else {
			off, _ := a.offset(src)
			conv(elem, a.values[off:off+int64(a.dtype.Size())], 1)
		}
		out = append(out, elem...)
	})
	return out
}

func padded(to nd.DType, v float64) []byte {
	elem := make([]byte, to.Size())
	switch to {
	case nd.Bool:
		if v != 0 {
			elem[0] = 1
		}
	case nd.C64:
		codec.ConvertRef(elem[:4], nd.F32, leFloat64(v), nd.F64, false, nil)
	case nd.C128:
		copy(elem, leFloat64(v))
	default:
		codec.ConvertRef(elem, to, leFloat64(v), nd.F64, false, nil)
	}
	return elem
}

// foldSlowly walks from the border one step at a time, turning at the ends.
func foldSlowly(x, n int64) int64 {
	if n == 1 {
		return 0
	}
	at, dir := int64(0), int64(1)
	steps := x
	if x < 0 {
		steps = -x
	}
	for range steps {
		if at+dir < 0 || at+dir >= n {
			dir = -dir
		}
		at += dir
	}
	return at
}

// randomLayout picks how an array is stored.
func randomLayout(r *rand.Rand, rank int) layout {
	dtypes := nd.DTypes()
	l := layout{dtype: dtypes[r.IntN(len(dtypes))], fill: r.IntN(3), shape: []int64{}, chunk: []int64{}}
	if l.dtype == nd.Bool {
		l.fill &= 1
	}
	for range rank {
		c := int64(1 + r.IntN(7))
		l.chunk = append(l.chunk, c)
		l.shape = append(l.shape, int64(1+r.IntN(20)))
	}
	if r.IntN(2) == 0 {
		for i := range l.chunk {
			l.shard = append(l.shard, l.chunk[i]*int64(1+r.IntN(4)))
		}
		l.indexAtStart = r.IntN(2) == 0
	}
	if rank > 1 && r.IntN(3) == 0 {
		l.order = r.Perm(rank)
	}
	l.big = r.IntN(4) == 0
	l.codec = append([]string{"", "blosc:snappy"}, kernelForms...)[r.IntN(2+len(kernelForms))]
	l.smooth = r.IntN(2) == 0 && l.dtype != nd.Bool
	if r.IntN(2) == 0 {
		l.missing = 2 + r.IntN(3)
	}
	return l
}

func randomBox(r *rand.Rand, shape []int64, crop []int, outside bool) nd.Box {
	b := make(nd.Box, len(shape))
	for i, n := range shape {
		c := int64(crop[i])
		var start int64
		if outside {
			start = r.Int64N(n+2*c+5) - c - 2
		} else {
			start = r.Int64N(n - c + 1)
		}
		b[i] = nd.Span{Start: start, Stop: start + c}
	}
	return b
}

// Whatever the storage, the box, the padding, the flips, the permutation and the
// types: every element of every batch is what the plain values say.
func TestBatchesEqualPlainValues(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 30 // for a second run of the package, in another build
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runRandom(t, seed) })
	}
}

func runRandom(t *testing.T, seed uint64) {
	runRandomFrom(t, seed, "", func(a *testArray, name string) ArrayRef {
		return ArrayRef{URI: name, Store: a.stored(name)}
	})
}

// runRandomFrom is runRandom with the arrays at a place of one's choice.
func runRandomFrom(t *testing.T, seed uint64, reader string, place func(a *testArray, name string) ArrayRef) {
	r := rand.New(rand.NewPCG(seed, 7))
	rank := r.IntN(5)
	var arrays []*testArray
	cfg := Config{BatchSize: 1 + r.IntN(4), OnError: Raise, Reader: reader}
	small := make([]int64, rank)
	for range 1 + r.IntN(3) {
		l := randomLayout(r, rank)
		a := makeArray(t, r, l)
		for i := range small {
			if small[i] == 0 || a.shape[i] < small[i] {
				small[i] = a.shape[i]
			}
		}
		arrays = append(arrays, a)
		name := fmt.Sprintf("mem%d", len(arrays))
		cfg.Arrays = append(cfg.Arrays, place(a, name))
	}
	for i := range 1 + r.IntN(2) {
		cfg.Fields = append(cfg.Fields, randomField(r, fmt.Sprint("f", i), small))
	}
	randomBudget(r, &cfg)
	var samples []sampler.Sample
	for id := range 40 {
		s := sampler.Sample{ID: int64(id)}
		for f := range cfg.Fields {
			s.Crops = append(s.Crops, randomCrop(r, &cfg.Fields[f], arrays))
		}
		samples = append(samples, s)
	}
	p := mustOpen(t, cfg)
	compare(t, p, &cfg, arrays, samples)
	checkIdle(t, p)
}

// checkIdle closes a pipeline from which everything was taken and looks for what
// was not given back: ring, cache, pins, look-ahead.
func checkIdle(t *testing.T, p *Pipeline) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	s := p.sched
	if s.slabs.used != 0 || s.inflight != 0 || s.loading != 0 || len(s.window)+len(s.queue)+s.planned != 0 || len(s.order) != 0 {
		t.Fatalf("ring %d bytes, %d waves, %d objects, %d samples, %d batches are left", s.slabs.used, s.inflight, s.loading, len(s.window), len(s.order))
	}
	if p.inbox.room != p.cfg.room() {
		t.Fatalf("%d of %d samples of look-ahead came back", p.inbox.room, p.cfg.room())
	}
	kept, entries := int64(0), 0
	for e := range s.table.all() {
		entries++
		if e.pins != 0 || e.head != nil || e.block == 0 {
			t.Fatalf("chunk %+v: %d pins, next use %v, block %d", e.key, e.pins, e.head, e.block)
		}
		kept += s.table.arena.blocks[e.block].size
	}
	if kept != s.table.arena.used || len(s.table.victims) != entries {
		t.Fatalf("%d bytes used by %d bytes of %d chunks", s.table.arena.used, kept, entries)
	}
	if kept != 0 && p.cfg.Reuse != ReuseCache {
		t.Fatalf("%s keeps %d bytes without need", p.cfg.Reuse, kept)
	}
	if s.compressed != nil {
		for _, e := range s.compressed.entries {
			if e.pins != 0 || !e.there {
				t.Fatalf("stored bytes of %+v: %d pins, used %v", e.key, e.pins, e.there)
			}
		}
	}
	for _, o := range s.locator.objects {
		if children := countChildren(s.locator, o); o.pins != children {
			t.Fatalf("object %+v has %d pins and %d children", o.key, o.pins, children)
		}
	}
}

func countChildren(l *locator, parent *object) (n int) {
	for _, o := range l.objects {
		if o.parent == parent {
			n++
		}
	}
	return n
}

func randomField(r *rand.Rand, name string, small []int64) Field {
	f := Field{Name: name, Pad: Pad(r.IntN(4))}
	for _, n := range small {
		c := 1 + r.IntN(int(n))
		if f.Pad != PadError {
			c = 1 + r.IntN(2*int(n)+2)
		}
		f.Shape = append(f.Shape, c)
	}
	if r.IntN(2) == 0 {
		f.Axes = r.Perm(len(small))
	}
	outs := []nd.DType{nd.I8, nd.U8, nd.I16, nd.U16, nd.I32, nd.U32, nd.I64, nd.U64, nd.F16, nd.BF16, nd.F32, nd.F64}
	f.DType = outs[r.IntN(len(outs))]
	f.PadValue = float64(r.IntN(9) - 3)
	if r.IntN(3) == 0 {
		f.Scale, f.Offset = []float64{r.NormFloat64()}, []float64{r.NormFloat64() * 10}
	}
	return f
}

func randomBudget(r *rand.Rand, cfg *Config) {
	cfg.Readers = 1 + r.IntN(4)
	cfg.Workers = 1 + r.IntN(3)
	cfg.Slots = 1 + r.IntN(3)
	cfg.Lookahead = cfg.BatchSize * (1 + r.IntN(5))
	cfg.Reuse = Reuse(r.IntN(4))
	cfg.DecodedBytes = int64(1 + r.IntN(1<<14))
}

func randomCrop(r *rand.Rand, f *Field, arrays []*testArray) sampler.Crop {
	numeric := []int{}
	for i, a := range arrays {
		if !a.dtype.Complex() {
			numeric = append(numeric, i)
		}
	}
	c := sampler.Crop{Array: r.IntN(len(arrays))}
	if len(numeric) > 0 {
		c.Array = numeric[r.IntN(len(numeric))]
	}
	c.Box = randomBox(r, arrays[c.Array].shape, f.Shape, f.Pad != PadError)
	if n := len(f.Shape); n > 0 {
		c.Flip = uint32(r.IntN(1 << n))
	}
	return c
}

// compare pushes the samples and checks the batches that come out.
func compare(t *testing.T, p *Pipeline, cfg *Config, arrays []*testArray, samples []sampler.Sample) {
	t.Helper()
	ctx := context.Background()
	complexOnly := false
	for _, s := range samples {
		for _, c := range s.Crops {
			complexOnly = complexOnly || arrays[c.Array].dtype.Complex()
		}
	}
	if complexOnly {
		if err := p.Push(ctx, samples...); !errors.Is(err, nd.ErrShape) {
			t.Fatalf("complex array into a numeric field: %v", err)
		}
		return
	}
	pushed := make(chan error, 1)
	go func() {
		err := p.Push(ctx, samples...)
		p.Finish()
		pushed <- err
	}()
	n := 0
	for {
		b, err := p.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for f := range cfg.Fields {
			data := bytesOf(t, b, f)
			for i := range b.Samples() {
				s := &samples[n+i]
				if b.Samples()[i].ID != s.ID {
					t.Fatalf("sample %d came where %d belongs", b.Samples()[i].ID, s.ID)
				}
				want := expect(arrays[s.Crops[f].Array], &cfg.Fields[f], s.Crops[f].Array, &s.Crops[f])
				got := data[i*len(want) : (i+1)*len(want)]
				if !bytes.Equal(got, want) {
					t.Fatalf("sample %d field %+v crop %+v array %v %s:\n got %x\nwant %x", s.ID, cfg.Fields[f], s.Crops[f],
						arrays[s.Crops[f].Array].shape, arrays[s.Crops[f].Array].dtype, got, want)
				}
			}
		}
		n += len(b.Samples())
		if err := b.Release(nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}
	if n != len(samples) {
		t.Fatalf("%d of %d samples came out", n, len(samples))
	}
}
