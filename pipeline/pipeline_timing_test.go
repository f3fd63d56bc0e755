package pipeline

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// What the engine costs beside the work itself: samples of one chunk of 64 bytes
// without codecs. The aim is 20 us a sample.
func BenchmarkSampleOverhead(b *testing.B) {
	l := layout{shape: []int64{256, 256}, chunk: []int64{8, 8}, shard: []int64{256, 256}, dtype: nd.U8}
	a := makeArray(b, rand.New(rand.NewPCG(1, 1)), l)
	p := mustOpen(b, Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 16, Lookahead: 256,
		Fields: []Field{{Name: "x", Shape: []int{8, 8}, DType: nd.U8}},
	})
	r := rand.New(rand.NewPCG(2, 2))
	samples := make([]sampler.Sample, 4096)
	for i := range samples {
		y, x := r.Int64N(32)*8, r.Int64N(32)*8
		samples[i] = sampler.Sample{Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 8}, {Start: x, Stop: x + 8}}}}}
	}
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for i := range b.N {
			if p.Push(context.Background(), samples[i%len(samples)]) != nil {
				return
			}
		}
		p.Finish()
	}()
	drain(b, p)
}

// The same for one more chunk of a sample: crops of 4096 chunks of 16 bytes.
// The aim is 1 us a chunk, copying it included.
func BenchmarkChunkOverhead(b *testing.B) {
	l := layout{shape: []int64{256, 256}, chunk: []int64{4, 4}, shard: []int64{256, 256}, dtype: nd.U8}
	a := makeArray(b, rand.New(rand.NewPCG(1, 1)), l)
	p := mustOpen(b, Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 1, Lookahead: 4, Reuse: ReuseNone,
		Fields: []Field{{Name: "x", Shape: []int{256, 256}, DType: nd.U8}},
	})
	whole := sampler.Sample{Crops: []sampler.Crop{{Box: nd.Whole(l.shape)}}}
	const chunks = 64 * 64
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			if p.Push(context.Background(), whole) != nil {
				return
			}
		}
		p.Finish()
	}()
	drain(b, p)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}

func drain(b *testing.B, p *Pipeline) {
	for {
		batch, err := p.Next(context.Background())
		if err != nil {
			return
		}
		release(b, batch)
	}
}

// Planning and dispatching a batch of damacy's default geometry, all of it in a
// quarter of the extents: 128 crops, 44 chunks each, over 8 arrays. Under cache
// everything is decoded already; else chunks are found in files, on a GPU in mapped
// ones. The figure is the scheduler's; the aim is 3 ms a batch.
func BenchmarkPlanBatch(b *testing.B) {
	for _, reuse := range []Reuse{ReuseCache, ReuseWindow, ReuseBatch} {
		b.Run(reuse.String(), func(b *testing.B) { planBatch(b, reuse) })
	}
}

func planBatch(b *testing.B, reuse Reuse) {
	r := rand.New(rand.NewPCG(1, 1))
	cfg := Config{
		BatchSize: 128, Lookahead: 512, Reuse: reuse, DecodedBytes: 64 * mib,
		Fields: []Field{{Name: "x", Shape: []int{32, 32, 32}, DType: nd.U8}},
	}
	l := layout{shape: []int64{128, 128, 128}, chunk: []int64{8, 16, 16}, shard: []int64{64, 64, 128}, dtype: nd.U8}
	root := makeArray(b, r, l).onDisk(b)
	for range 8 {
		cfg.Arrays = append(cfg.Arrays, ArrayRef{URI: root})
	}
	p := mustOpen(b, cfg)
	samples := make([]sampler.Sample, 1280)
	for i := range samples {
		box := make(nd.Box, 3)
		for k := range box {
			start := r.Int64N(128 - 32 + 1)
			box[k] = nd.Span{Start: start, Stop: start + 32}
		}
		samples[i] = sampler.Sample{Crops: []sampler.Crop{{Array: r.IntN(8), Box: box}}}
	}
	stream := func(batches int) {
		go func() {
			for i := range batches {
				at := i % 10 * 128
				if p.Push(context.Background(), samples[at:at+128]...) != nil {
					return
				}
			}
			p.Finish()
		}()
		drain(b, p)
	}
	stream(10)
	before := p.Stats()
	b.ResetTimer()
	stream(b.N)
	now := p.Stats()
	b.ReportMetric((now.Plan.Busy-before.Plan.Busy).Seconds()*1e3/float64(b.N), "ms-plan/batch")
	b.ReportMetric((now.Dispatch.Busy-before.Dispatch.Busy).Seconds()*1e3/float64(b.N), "ms-dispatch/batch")
}
