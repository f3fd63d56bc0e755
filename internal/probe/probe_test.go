package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
)

// write makes an array of 20 x 40 x 56 in chunks of 8 x 16 x 24 and gives its path.
func write(t testing.TB, a dataset.Array, codecs string) string {
	t.Helper()
	if err := json.Unmarshal([]byte(codecs), &a.Codecs); err != nil {
		t.Fatal(err)
	}
	a.Path, a.Entropy, a.Seed, a.Level = "x", 0.5, 42, 3
	if a.Shape == nil {
		a.Shape, a.Chunk = []int64{20, 40, 56}, []int64{8, 16, 24}
	}
	if a.Format == 0 {
		a.Format = 3
	}
	if a.DType == nd.Invalid {
		a.DType = nd.U16
	}
	if a.Field == "" {
		a.Field = "lm"
	}
	root := t.TempDir()
	if err := dataset.Write(context.Background(), root, []dataset.Array{a}, nil); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "x")
}

// quick are options of a probe whose rates do not matter.
func quick(uri string) Options {
	return Options{URI: uri, Device: "cpu", Time: time.Millisecond, OnlyStored: true}
}

func run(t testing.TB, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every codec of both formats, with and without shards, is probed: its method is known,
// its chunks are all decoded, and who would decode them on a GPU is right.
func TestCodecs(t *testing.T) {
	gpu, host := Predicted, ByHost
	for _, c := range []struct {
		codecs string
		method Method
		from   string
		size   int64 // of a chunk's elements
		array  dataset.Array
	}{
		{`"none"`, None, gpu, 2, dataset.Array{}},
		{`"zstd"`, Zstd, gpu, 2, dataset.Array{}},
		{`"zstd"`, Zstd, gpu, 2, dataset.Array{Shard: []int64{16, 32, 48}}},
		{`"zstd"`, Zstd, gpu, 2, dataset.Array{Format: 2, Encoder: "klauspost"}},
		{`["zstd","crc32c"]`, Zstd, gpu, 2, dataset.Array{Shard: []int64{8, 32, 48}}},
		{`["shuffle","zstd"]`, Zstd, gpu, 2, dataset.Array{}},
		{`["shuffle","zstd"]`, Zstd, gpu, 2, dataset.Array{Format: 2}},
		{`"lz4"`, LZ4, gpu, 2, dataset.Array{Format: 2}},
		{`"gzip"`, Gzip, gpu, 2, dataset.Array{}},
		{`"zlib"`, Zlib, gpu, 4, dataset.Array{Format: 2, DType: nd.F32, Field: "weather"}},
		{`"blosc-lz4"`, BloscLZ4, gpu, 2, dataset.Array{}},
		{`"blosc-lz4hc-bitshuffle"`, BloscLZ4, gpu, 1, dataset.Array{DType: nd.U8, Field: "em"}},
		{`"blosc-zstd"`, BloscZstd, gpu, 4, dataset.Array{DType: nd.F32, Field: "weather"}},
		{`"blosc-zlib"`, BloscZlib, gpu, 2, dataset.Array{}},
		{`"blosc-blosclz-noshuffle"`, BloscLZ, host, 2, dataset.Array{Format: 2}},
		{`["delta","zstd"]`, Zstd, host, 2, dataset.Array{Format: 2}},
		{`["big","zstd"]`, Zstd, gpu, 2, dataset.Array{}},
		{`["transpose","blosc-lz4"]`, BloscLZ4, gpu, 2, dataset.Array{}},
		{`["zstd","gzip"]`, Other, host, 2, dataset.Array{}},
		{`"zstd"`, Zstd, gpu, 8, dataset.Array{DType: nd.C64, Field: "weather"}},
		{`"shuffle"`, Shuffle, gpu, 2, dataset.Array{}},
	} {
		r := run(t, quick(write(t, c.array, c.codecs)))
		name := fmt.Sprintf("%s %+v", c.codecs, c.array)
		if r.Method != c.method || r.GPU.From != c.from || r.ChunkBytes != 8*16*24*c.size {
			t.Errorf("%s: method %s by %s, chunks of %d bytes", name, r.Method, r.GPU.From, r.ChunkBytes)
		}
		if s := r.Sample; s.Looked != 27 || s.Missing != 0 || s.Failed != 0 || s.Read != 27 || s.Grid != 27 {
			t.Errorf("%s: %+v", name, s)
		}
		if (r.Sizes.Ratio > 1) != (c.method != None && c.method != Shuffle) || r.Sizes.RatioMin > r.Sizes.RatioMedian || r.Sizes.RatioMedian > r.Sizes.RatioMax {
			t.Errorf("%s: sizes %+v", name, r.Sizes)
		}
		known := c.from == gpu && c.method.Kernel() != ""
		if (len(r.GPU.Waves) == 3) != known || (r.GPU.GBPerS > 0) != known {
			t.Errorf("%s: %+v", name, r.GPU)
		}
		if decodes := c.method != None; (r.Host.GBPerSCore > 0) != decodes || (r.Host.GBPerS > 0) != decodes {
			t.Errorf("%s: %+v", name, r.Host)
		}
		if r.F32GBPerS <= 0 || r.Bound == "" || len(r.Stages) < 2 || r.Target != "host" || r.Advice.Action != "keep" || len(r.Table) != 1 {
			t.Errorf("%s: %v by %q, %+v, %+v", name, r.F32GBPerS, r.Bound, r.Stages, r.Advice)
		}
	}
}

// What is inside zstd frames is told, and where predictions come from.
func TestStructureAndSources(t *testing.T) {
	r := run(t, quick(write(t, dataset.Array{Encoder: "klauspost"}, `[{"name":"zstd","configuration":{"level":3,"checksum":true}}]`)))
	s := r.Structure
	if s == nil || s.SequencesPerKiB <= 0 || s.Frames != 27 || s.Checksums != 27 || s.WindowBytes != 6144 || len(s.HuffmanTables) == 0 || s.BlocksPerChunk != 1 {
		t.Fatalf("%+v", s)
	}
	files := 0
	for _, f := range r.GPU.Sources {
		if strings.HasPrefix(f.File, "bench/results/") && f.GPU != "" && f.Date != "" {
			files++
		}
	}
	if files != 3 || r.GPU.Name == "" || r.GPU.CopyFrom != Predicted {
		t.Errorf("%+v", r.GPU)
	}
}

// The sample follows from the seed: what is counted is the same in every run.
func TestSeed(t *testing.T) {
	uri := write(t, dataset.Array{Shape: []int64{32, 32, 32}, Chunk: []int64{4, 4, 4}, Field: "weather", DType: nd.F32}, `"zstd"`)
	o := quick(uri)
	o.Samples = 10
	first, again := run(t, o), run(t, o)
	if !reflect.DeepEqual(first.Sample, again.Sample) || !reflect.DeepEqual(first.Structure, again.Structure) || !reflect.DeepEqual(first.Sizes, again.Sizes) {
		t.Errorf("the same seed: %+v and %+v", first.Sample, again.Sample)
	}
	if first.Sample.Read != 10 || first.Sample.Grid != 512 {
		t.Errorf("%+v", first.Sample)
	}
	o.Seed = 1
	if other := run(t, o); reflect.DeepEqual(first.Sizes, other.Sizes) {
		t.Error("another seed draws the same chunks")
	}
}

// Candidates of all kinds are tried and measured; the table is sorted and holds the
// array as it is once.
func TestCandidates(t *testing.T) {
	for _, dtype := range []nd.DType{nd.U8, nd.U16, nd.F32} {
		o := quick(write(t, dataset.Array{DType: dtype}, `"gzip"`))
		o.OnlyStored = false
		r := run(t, o)
		if want := len(DefaultCodecs(dtype.Size())) + 1; len(r.Table) != want {
			t.Fatalf("%s: %d rows, want %d", dtype, len(r.Table), want)
		}
		stored := 0
		for i, c := range r.Table {
			if c.AsStored {
				stored++
			}
			if c.Ratio <= 0 || c.Size <= 0 || c.F32GBPerS <= 0 || c.HostF32GBPerS <= 0 || c.Bound == "" || c.HostBound == "" {
				t.Errorf("%s: %+v", dtype, c)
			}
			if i > 0 && c.HostF32GBPerS > r.Table[i-1].HostF32GBPerS {
				t.Errorf("%s: row %d is better than the one before", dtype, i)
			}
			if size := r.Table[slices.IndexFunc(r.Table, func(c Candidate) bool { return c.AsStored })].Ratio / c.Ratio; size/c.Size > 1.0001 || size/c.Size < 0.9999 {
				t.Errorf("%s: %s has size %v and ratio %v", dtype, c.Codec, c.Size, c.Ratio)
			}
		}
		if stored != 1 {
			t.Errorf("%s: %d rows as stored", dtype, stored)
		}
	}
}

// The names of candidates: all that are listed work, and nothing else does.
func TestCodecNames(t *testing.T) {
	data := shot(10_000)
	for _, name := range append(CodecNames(), "zstd:1", "zstd:-5", "gzip:9", "blosc-lz4:9", "blosc-zstd-bitshuffle:3", "shuffle+zstd", "shuffle+zstd:7", "shuffle+none", "shuffle+lz4") {
		for _, size := range []int{1, 2, 8} {
			stages, err := parseCodec(name, size)
			if err != nil {
				t.Fatal(err)
			}
			p := &probe{options: Options{Time: time.Microsecond}, rooms: newRooms()}
			c, s, _, err := p.try(context.Background(), &trial{plain: [][]byte{data}}, name, stages)
			if err != nil || c.Ratio <= 0 || s.Decoded != 10_000 {
				t.Errorf("%s: %+v %v", name, c, err)
			}
		}
	}
	for _, name := range []string{"", "zst", "zstd:", "zstd:x", "lz4:1", "none:2", "blosc", "blosc-", "blosc-lz5", "blosc-lz4-shuffle", "shuffle+blosc-lz4", "shuffle", "blosc-lz4 lz4hc"} {
		if _, err := parseCodec(name, 2); !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Filters stay: the candidates encode what they leave.
func TestFilters(t *testing.T) {
	uri := write(t, dataset.Array{Format: 2, DType: nd.F64, Field: "weather"}, `[{"name":"fixedscaleoffset","configuration":{"scale":10,"offset":0,"dtype":"<f8","astype":"<i2"}},"zlib"]`)
	o := quick(uri)
	o.OnlyStored, o.Codecs = false, []string{"none", "shuffle+zstd"}
	r := run(t, o)
	for _, c := range r.Table {
		if c.GPUFrom != ByHost {
			t.Errorf("%s is decoded by %s", c.Codec, c.GPUFrom)
		}
	}
	none := r.Table[slices.IndexFunc(r.Table, func(c Candidate) bool { return c.Codec == "none" })]
	if none.Ratio != 4 || r.Sizes.Ratio < 4 || none.HostGBPerSCore <= 0 || none.HostBound == "" {
		t.Errorf("of 8 bytes 2 are encoded: none is %+v, the chunks have the ratio %v", none, r.Sizes.Ratio)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "filters") {
		t.Errorf("notes: %q", r.Notes)
	}
}

// Chunks that are missing hold the fill value and cost nothing; broken ones are counted,
// with the first named, and the others go on.
func TestMissingAndBroken(t *testing.T) {
	uri := write(t, dataset.Array{}, `"zstd"`)
	files := chunkFiles(t, uri)
	for _, name := range files[:9] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files[9:12] {
		if err := os.WriteFile(name, []byte("nothing that any codec wrote"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, quick(uri))
	if s := r.Sample; s.Looked != 27 || s.Missing != 9 || s.Failed != 3 || s.Read != 15 || !strings.Contains(s.Failure, "corrupt") || !strings.Contains(s.Failure, "chunk ") {
		t.Errorf("%+v", s)
	}
	full := run(t, quick(write(t, dataset.Array{}, `"zstd"`)))
	if r.Crop.Decoded >= full.Crop.Decoded || r.Crop.Chunks != full.Crop.Chunks {
		t.Errorf("with missing chunks a crop decodes %v, with all %v", r.Crop.Decoded, full.Crop.Decoded)
	}
	for _, name := range files[9:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	r = run(t, quick(uri))
	if r.Sample.Missing != 27 || r.Sizes != nil || r.Structure != nil || len(r.Table) != 0 || !strings.Contains(r.Advice.Text, "no chunk is stored") {
		t.Errorf("all chunks are missing: %+v", r)
	}
}

// chunkFiles lists the files of an array's chunks.
func chunkFiles(t *testing.T, uri string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(uri, "c"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A shard whose index is broken fails its chunks alone; a shard that is compressed as a
// whole is read as one.
func TestShards(t *testing.T) {
	uri := write(t, dataset.Array{Shard: []int64{8, 48, 72}}, `"zstd"`)
	files := chunkFiles(t, uri)
	data, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	if err := os.WriteFile(files[1], data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, quick(uri))
	if s := r.Sample; s.Failed != 9 || s.Read != 18 || !strings.Contains(s.Failure, "checksum") || r.Shards == nil {
		t.Errorf("%+v", s)
	}
}

// What cannot be probed is a clear error of the right kind.
func TestErrors(t *testing.T) {
	uri := write(t, dataset.Array{}, `"zstd"`)
	huge := filepath.Join(t.TempDir(), "huge")
	doc := `{"zarr_format":2,"shape":[%s],"chunks":[%s],"dtype":"<u2","compressor":%s,"fill_value":0,"order":"C","filters":null}`
	array := func(name, shape, chunks, compressor string) string {
		dir := filepath.Join(huge, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".zarray"), fmt.Appendf(nil, doc, shape, chunks, compressor), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		name string
		o    Options
		kind error
		word string
	}{
		{"absent", quick(uri + "/absent"), nd.ErrNotFound, "absent"},
		{"group", quick(filepath.Dir(uri)), nd.ErrNotFound, "name an array in it, of x"},
		{"level of an array", Options{URI: uri, Level: "1", Device: "cpu"}, nd.ErrNotFound, "no levels"},
		{"crop", Options{URI: uri, Crop: []int64{1, 2}, Device: "cpu"}, nd.ErrConfig, "2 axes"},
		{"codec", Options{URI: uri, Codecs: []string{"brotli"}, Device: "cpu"}, nd.ErrConfig, "brotli"},
		{"device", Options{URI: uri, Device: "gpu"}, nd.ErrConfig, "cuda:N"},
		{"no driver", Options{URI: uri, Device: "cuda:0", Driver: "/absent/libcuda.so"}, nd.ErrDevice, "absent"},
		{"samples", Options{URI: uri, Samples: -1}, nd.ErrConfig, "samples"},
		{"huge chunks", quick(array("chunk", "100000,100000", "100000,100000", "null")), nd.ErrBudget, "chunks of"},
		{"no elements", quick(array("empty", "0,4", "2,2", "null")), nd.ErrShape, "no elements"},
		{"unknown codec", quick(array("codec", "4,4", "2,2", `{"id":"jpeg"}`)), nd.ErrUnsupported, "jpeg"},
	} {
		if _, err := Run(context.Background(), c.o); !errors.Is(err, c.kind) || !strings.Contains(fmt.Sprint(err), c.word) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A stop ends the work at once, wherever it is.
func TestStop(t *testing.T) {
	o := quick(write(t, dataset.Array{}, `"zstd"`))
	o.OnlyStored, o.Time = false, time.Hour
	phases := map[string]bool{}
	o.Report = func(phase string, _, _ int64) { phases[phase] = true }
	for _, at := range []string{"look at chunks", "read chunks", "check chunks", "read again", "decode on the host"} {
		ctx, cancel := context.WithCancel(context.Background())
		stop := o
		stop.Report = func(phase string, done, total int64) {
			o.Report(phase, done, total)
			if phase == at {
				cancel()
			}
		}
		if _, err := Run(ctx, stop); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %q: %v", at, err)
		}
		cancel()
		if !phases[at] {
			t.Errorf("there was no phase %q", at)
		}
	}
}

// The names in the JSON are a promise: this list changes with a line in the changelog.
func TestSchema(t *testing.T) {
	o := quick(write(t, dataset.Array{}, `"zstd"`))
	text, err := json.Marshal(run(t, o))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var got []string
	paths(v, "", &got)
	slices.Sort(got)
	want := strings.Fields(schema)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the JSON has\n%s", strings.Join(got, "\n"))
	}
}

// paths lists the names of all members.
func paths(v any, at string, list *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			paths(value, strings.TrimPrefix(at+"."+key, "."), list)
		}
	case []any:
		for _, value := range v {
			paths(value, at+"[]", list)
		}
	default:
		*list = append(*list, at)
	}
}
