package loader_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// objects is a zarr v3 array of n elements of int32, in chunks of 4, in which
// element i is 1000+i.
func objects(n int) map[string][]byte {
	const chunk = 4
	all := map[string][]byte{"zarr.json": fmt.Appendf(nil, `{"zarr_format": 3, "node_type": "array", "shape": [%d], "data_type": "int32",
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [%d]}},
		"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
		"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "fill_value": 0}`, n, chunk)}
	for first := 0; first < n; first += chunk {
		var data []byte
		for i := range chunk {
			data = binary.LittleEndian.AppendUint32(data, uint32(1000+first+i))
		}
		all["c/"+strconv.Itoa(first/chunk)] = data
	}
	return all
}

// crop is the number of elements in each sample of these tests.
const crop = 3

// grid is the source of all crops of an array of objects(n), at distance 1.
func grid(t *testing.T, n int) sampler.Source {
	t.Helper()
	g, err := sampler.NewGrid(sampler.GridCrops{
		Fields: []sampler.Field{{Name: "x", Crop: []int64{crop}, Arrays: []sampler.Array{{Name: "a", Shape: []int64{int64(n)}}}}},
		Stride: []int64{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// config is a loader over the array in st.
func config(st store.Store) loader.Config {
	return loader.Config{
		Pipeline: pipeline.Config{
			Arrays: []pipeline.ArrayRef{{Store: st}}, Fields: []pipeline.Field{{Name: "x", Shape: []int{crop}}},
			DecodedBytes: 1 << 20,
		},
		BatchSize: 5, Seed: 11, Shuffle: true,
	}
}

func one(r, world int) rank.Identity {
	return rank.Identity{Rank: r, World: world, LocalRank: r, LocalWorld: world, Nodes: 1}
}

func open(t *testing.T, id rank.Identity, source sampler.Source, cfg loader.Config) *loader.Loader {
	t.Helper()
	l, err := loader.New(t.Context(), id, source, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t testing.TB, l *loader.Loader) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// served is what a batch held: its place and its samples.
type served struct {
	epoch, step int64
	samples     []int64
}

func (s served) String() string { return fmt.Sprintf("%d/%d%v", s.epoch, s.step, s.samples) }

// read checks a batch against the array and releases it.
func read(t *testing.T, b *pipeline.Batch) served {
	t.Helper()
	got := served{b.Meta().Epoch, b.Meta().Step, []int64{}}
	x := b.Tensor("x")
	if want := []int64{int64(len(b.Samples())), crop}; x.DType != nd.I32 || !slices.Equal(x.Shape, want) {
		t.Errorf("tensor %v %v, want i32 %v", x.DType, x.Shape, want)
	}
	for i, s := range b.Samples() {
		if s.ID == loader.Padding {
			continue
		}
		got.samples = append(got.samples, s.ID)
		for k := range crop {
			// The samples of grid lie one element apart.
			if v := binary.LittleEndian.Uint32(x.Data[4*(i*crop+k):]); int64(v) != 1000+s.ID+int64(k) {
				t.Errorf("sample %d, element %d is %d", s.ID, k, v)
			}
		}
	}
	if err := b.Release(nil); err != nil {
		t.Error(err)
	}
	return got
}

// next takes one batch.
func next(t *testing.T, l *loader.Loader) {
	t.Helper()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read(t, b)
}

// want is what a rank is served in an epoch, by the arithmetic of the stream.
func want(s sampler.Stream, epoch int64, r, world int) []served {
	all := []served{}
	for step := range s.Steps() {
		all = append(all, served{epoch, step, s.Order(epoch).Samples(s.Slice(step, r, world))})
	}
	return all
}

func stream(source sampler.Source, cfg loader.Config, world int) sampler.Stream {
	return sampler.Stream{
		N: source.Len(), Global: max(cfg.Global, int64(cfg.BatchSize*world)), Seed: cfg.Seed,
		Fingerprint: source.Fingerprint(), Shuffle: cfg.Shuffle, Tail: cfg.Tail,
	}
}

func same(t *testing.T, what string, got, want []served) {
	t.Helper()
	text := func(list []served) string {
		lines := make([]string, len(list))
		for i, s := range list {
			lines[i] = s.String()
		}
		return strings.Join(lines, "\n  ")
	}
	if text(got) != text(want) {
		t.Errorf("%s: got\n  %s\nwant\n  %s", what, text(got), text(want))
	}
}
