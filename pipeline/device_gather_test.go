package pipeline

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// Where the driver has no batched copy a kernel brings what is mapped: the same bytes,
// and as many calls of the driver however many pieces there are.
func TestMappedFilesAreGathered(t *testing.T) {
	for _, codec := range []string{"", "blosc", "lz4"} {
		t.Run("codec "+codec, func(t *testing.T) {
			l := layout{shape: []int64{64, 64}, chunk: []int64{4, 4}, shard: []int64{32, 32}, dtype: nd.U16, codec: codec}
			var fake *cudatest.Fake
			p, a, _ := mapAll(t, l, 4, func(cfg *Config) {
				fake = onFake(t, cfg)
				fake.Hide("cuMemcpyBatchAsync")
			})
			waves, pieces, copies := p.Stats().Waves, p.Stats().Copy.Count, fake.Calls("cuMemcpyAsync")
			for range 5 {
				p.corners(t, a, nil)
			}
			waves, pieces, copies = p.Stats().Waves-waves, p.Stats().Copy.Count-pieces, fake.Calls("cuMemcpyAsync")-copies
			if pieces < 10*waves {
				t.Fatalf("%d pieces in %d waves: the test shows nothing", pieces, waves)
			}
			// A wave has chunks, statuses, pieces, tiles and loops; a batch is fetched once.
			if most := 5*int(waves) + 5; copies > most {
				t.Errorf("%d copies for %d pieces in %d waves, at most %d", copies, pieces, waves, most)
			}
		})
	}
}

// The kernel reaches the page cache on a GPU too, whose driver may not need it.
func TestMappedFilesAreGatheredOnAGPU(t *testing.T) {
	if !strings.HasPrefix(*testDevice, "cuda:") {
		t.Skip("it needs a GPU: -device cuda:N")
	}
	l := layout{shape: []int64{64, 64}, chunk: []int64{4, 4}, shard: []int64{32, 32}, dtype: nd.U16, codec: "lz4"}
	p, a, _ := mapAll(t, l, 4, func(cfg *Config) { *cfg = onDevice(t, *cfg) })
	p.backend.(*device).gathers = true // no wave is in hand
	for range 5 {
		p.corners(t, a, nil)
	}
}

// Mappings that the system lays side by side are copied apart: the driver refuses a
// copy that goes from one into another.
func TestMappingsSideBySide(t *testing.T) {
	l := layout{shape: []int64{64, 64}, chunk: []int64{32, 64}, dtype: nd.U16} // each file is a page
	p, a, _ := mapAll(t, l, 2, func(cfg *Config) { onFake(t, cfg) })
	for range 5 {
		p.corners(t, a, nil)
	}
}
