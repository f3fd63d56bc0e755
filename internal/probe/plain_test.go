package probe

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
)

// Chunks that a codec kept as they were are handed on without a copy. The candidates get those bytes, not
// what lay in the probe's memory: noise does not compress for them either. The host decodes nothing.
func TestPlainChunks(t *testing.T) {
	for _, codecs := range []string{`"blosc-lz4-noshuffle"`, `["blosc-lz4-noshuffle","crc32c"]`, `"crc32c"`} {
		o := quick(write(t, dataset.Array{Shape: []int64{16, 32, 48}, Chunk: []int64{8, 16, 24}, DType: nd.U8, Field: "em"}, codecs))
		o.OnlyStored, o.Codecs = false, []string{"lz4"}
		r := run(t, o)
		for _, c := range r.Table {
			if c.Ratio > 1.3 {
				t.Errorf("%s: %s has the ratio %.2f", codecs, c.Codec, c.Ratio)
			}
		}
		if plain := codecs == `"blosc-lz4-noshuffle"`; r.Host.Plain != plain || (r.Host.GBPerSCore == 0) != plain {
			t.Errorf("%s: the host %+v", codecs, r.Host)
		}
	}
	if h := run(t, quick(write(t, dataset.Array{}, `"zstd"`))).Host; h.Plain || h.GBPerSCore <= 0 || h.CPUShare <= 0 || h.CPUShare > 1 {
		t.Errorf("zstd: %+v", h)
	}
}

// Of goroutines that share cores the probe knows that they did not run all the time.
func TestCPUShare(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the time of a thread is known on Linux alone")
	}
	zstd, err := codec.New("zstd", nil)
	if err != nil {
		t.Fatal(err)
	}
	data := shot(1 << 20)
	encoded, err := zstd.Encode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := codec.NewChain([]codec.Codec{zstd}, len(data))
	if err != nil {
		t.Fatal(err)
	}
	n := 4 * runtime.GOMAXPROCS(0)
	p := &probe{rooms: make([][]byte, n)}
	rate, share, err := p.all(context.Background(), decoding{chain, [][]byte{encoded}, []int{len(data)}}, n, 300*time.Millisecond)
	if err != nil || rate <= 0 || share <= 0 || share > 0.6 {
		t.Errorf("four on a core: %.2f GB/s, ran %.2f of the time, %v", rate, share, err)
	}
}
