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
