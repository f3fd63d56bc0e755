package probe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// spoil makes files of bytes that no codec wrote.
func spoil(t *testing.T, files []string, data []byte) {
	t.Helper()
	for _, name := range files {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Chunks that are broken count in no figure: they are the same as if those were missing, but for their number. The
// first is named with its file.
func TestBrokenChunksDoNotCount(t *testing.T) {
	broken, missing := write(t, dataset.Array{}, `"zstd"`), write(t, dataset.Array{}, `"zstd"`)
	spoil(t, chunkFiles(t, broken)[:12], []byte("a few bytes"))
	for _, name := range chunkFiles(t, missing)[:12] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	got, want := run(t, quick(broken)), run(t, quick(missing))
	if *got.Sizes != *want.Sizes || got.Sample.Bytes != want.Sample.Bytes || got.Sample.Failed != 12 || got.Structure.Sequences != want.Structure.Sequences {
		t.Errorf("%+v, %+v; expected %+v, %+v", got.Sizes, got.Sample, want.Sizes, want.Sample)
	}
	if got.Table[0].Ratio != want.Table[0].Ratio {
		t.Errorf("ratio %v, expected %v", got.Table[0].Ratio, want.Table[0].Ratio)
	}
	if !strings.Contains(strings.Join(got.Notes, "\n"), "12 of the chunks") || !strings.Contains(got.Sample.Failure, "file c/") || !strings.Contains(got.Sample.Failure, "chunk ") {
		t.Errorf("%q, %q", got.Notes, got.Sample.Failure)
	}
}

// If all chunks are broken there is nothing to advise: that is an error, of the kind of the first, with
// its place.
func TestAllChunksAreBroken(t *testing.T) {
	uri := write(t, dataset.Array{}, `"zstd"`)
	files := chunkFiles(t, uri)
	spoil(t, files, []byte("a few bytes"))
	if err := os.Remove(files[0]); err != nil { // one that is missing is not a good one
		t.Fatal(err)
	}
	_, err := Run(context.Background(), quick(uri))
	if !errors.Is(err, nd.ErrCorrupt) || !strings.Contains(err.Error(), "none of the 26 chunks") || !strings.Contains(err.Error(), "file c/") {
		t.Errorf("%v", err)
	}
}

// What is read is what the engine reads: a chunk of many more stored bytes than it decodes to, up to
// the engine's limit, and not a byte beyond.
func TestLongChunks(t *testing.T) {
	uri := write(t, dataset.Array{Shape: []int64{8, 16}, Chunk: []int64{8, 16}}, `"zstd"`)
	file := chunkFiles(t, uri)[0]
	frame, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const size, most = 256, 64 << 20
	skippable := func(n int) []byte {
		n -= len(frame) + 8
		return append(append([]byte{0x50, 0x2A, 0x4D, 0x18, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}, make([]byte, n)...), frame...)
	}
	if pipeline.CheckStored(most, size) != nil || pipeline.CheckStored(most+1, size) == nil {
		t.Fatal("the engine has another limit")
	}
	spoil(t, []string{file}, skippable(22<<20))
	if r := run(t, quick(uri)); r.Sample.Read != 1 {
		t.Errorf("%+v", r.Sample)
	}
	spoil(t, []string{file}, skippable(most+1))
	if _, err := Run(context.Background(), quick(uri)); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "stored bytes") || !strings.Contains(err.Error(), "file c/0/0") {
		t.Errorf("%v", err)
	}
}

// Complex elements stay what they are.
func TestComplex(t *testing.T) {
	for _, dtype := range []nd.DType{nd.C64, nd.C128} {
		r := run(t, quick(write(t, dataset.Array{DType: dtype, Field: "weather"}, `"zstd"`)))
		if r.Host.ConvertGBPerSCore <= 0 || r.F32GBPerS <= 0 {
			t.Errorf("%s: %+v", dtype, r.Host)
		}
	}
}

// Levels that a library does not have are refused, not bent.
func TestLevels(t *testing.T) {
	for name, good := range map[string]bool{
		"zstd:22": true, "zstd:23": false, "zstd:99": false, "zstd:-200000": false, "gzip:0": true, "gzip:10": false, "zlib:-1": false,
		"blosc-lz4:9": true, "blosc-lz4:10": false, "shuffle+zstd:23": false,
	} {
		if _, err := parseCodec(name, 2); (err == nil) != good || err != nil && (!errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "level")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Calls on a GPU end with their time: what it does not allow is not measured, and said so.
func TestGPUTime(t *testing.T) {
	fake := cudatest.New(t)
	o := onFake(fake, small(t, `"zlib"`))
	o.GPUTime, o.OnlyStored, o.Codecs = time.Nanosecond, false, []string{"zlib", "lz4"}
	r := run(t, o)
	if len(r.GPU.Waves) != 1 || r.GPU.Waves[0].Chunks != 2 || r.GPU.GBPerS <= 0 {
		t.Errorf("%+v", r.GPU)
	}
	for _, c := range r.Table {
		if want := map[string]string{"as stored": Here, "zlib": Predicted, "lz4": Predicted}[c.Codec]; c.GPUFrom != want {
			t.Errorf("%s: %s", c.Codec, c.GPUFrom)
		}
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "calls of 30 chunks and more are not measured") || !strings.Contains(notes, "what came after is predicted") {
		t.Errorf("%q", r.Notes)
	}
	clean(t, fake)
}

// The goroutines that decode share memory that is taken once, of a size that is bounded.
func TestRooms(t *testing.T) {
	p := &probe{rooms: newRooms()}
	one := p.room(0, 1000)
	if again := p.room(0, 500); len(again) != 500 || &again[0] != &one[0] {
		t.Error("memory is taken again")
	}
	if other := p.room(1, 10); &other[0] == &one[0] {
		t.Error("two goroutines have the same memory")
	}
}
