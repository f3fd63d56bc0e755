package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// All that waves need on the device goes there on one stream, a wave's before the next
// wave's: one engine does these copies, and a table on a stream of its own would wait for
// the chunks of waves that were issued later. That also holds for tiles that are more than
// the lists hold, and these make the same batches.
func TestTablesGoWithTheirWave(t *testing.T) {
	for _, tiles := range []int{stageTiles, 3} {
		for _, codec := range []string{"", "lz4", "zstd", "gzip"} {
			t.Run(fmt.Sprintf("%d tiles, codec %s", tiles, codec), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 1))
				a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: nd.U16, codec: codec})
				cfg := Config{
					Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 8, Lookahead: 64,
					Fields: []Field{{Name: "x", Shape: []int{20, 20}, DType: nd.F32}},
				}
				fake := onFake(t, &cfg)
				fake.Lazy(true)
				p, err := Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				p.capacity.chunks = 12
				for _, s := range p.backend.(*device).stages {
					s.tiles.tiles = s.tiles.tiles[: 0 : tiles*kernels.TileBytes]
				}
				var samples []sampler.Sample
				for i := range 32 {
					y, x := r.Int64N(45), r.Int64N(45)
					samples = append(samples, sampler.Sample{ID: int64(i), Crops: []sampler.Crop{{Box: nd.Box{{Start: y, Stop: y + 20}, {Start: x, Stop: x + 20}}}}})
				}
				compare(t, p, &cfg, []*testArray{a}, samples)
				if s, n := p.Stats(), fake.Uploading(); n != 1 || s.ChunksRefused != 0 || s.Issue.Count < 4 {
					t.Errorf("%d waves were copied on %d streams, want one; %d chunks were refused", s.Issue.Count, n, s.ChunksRefused)
				}
				checkIdle(t, p)
			})
		}
	}
}
