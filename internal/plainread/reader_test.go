package plainread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// open writes an array and opens it; codecs is a JSON chain as in scenarios.
func open(t *testing.T, a dataset.Array, codecs string) (*Reader, string) {
	t.Helper()
	if err := json.Unmarshal([]byte(codecs), &a.Codecs); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	a.Path, a.Entropy, a.Seed, a.Level = "x", 0.5, 42, 3
	if err := dataset.Write(context.Background(), root, []dataset.Array{a}, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "x")
	name := map[int]string{2: ".zarray", 3: "zarr.json"}[a.Format]
	doc, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := zarr.ParseArray(doc)
	if err != nil {
		t.Fatalf("%s: %v", codecs, err)
	}
	st := store.NewFile(dir, store.Options{})
	t.Cleanup(func() { st.Close() }) //nolint:errcheck // only read
	r, err := New(st, "", meta, 1<<20)
	if err != nil {
		t.Fatalf("%s: %v", codecs, err)
	}
	return r, dir
}

func base() dataset.Array {
	return dataset.Array{Shape: []int64{13, 21, 34}, Chunk: []int64{4, 8, 16}, DType: nd.U16, Format: 3, Field: "lm"}
}

// Whatever the codecs, format and layout, the values are those of the
// uncompressed array: this holds the writer, the metadata parser and the codecs
// against each other.
func TestAllCodecsGiveTheSame(t *testing.T) {
	box := nd.Box{{Start: 2, Stop: 13}, {Start: 5, Stop: 20}, {Start: 0, Stop: 33}}
	read := func(a dataset.Array, codecs string) string {
		r, _ := open(t, a, codecs)
		data, err := r.Read(context.Background(), box, a.DType)
		if err != nil {
			t.Fatalf("%v %s: %v", a, codecs, err)
		}
		return string(data)
	}
	sharded := base()
	sharded.Shard = []int64{8, 16, 32}
	v2 := base()
	v2.Format = 2
	want := read(base(), `"none"`)
	for _, codecs := range []string{
		`"none"`, `"zstd"`, `"gzip"`, `"zlib"`, `"lz4"`, `"crc32c"`, `"big"`, `"transpose"`, `"delta"`, `"shuffle"`,
		`"blosc-zstd"`, `"blosc-lz4-bitshuffle"`, `"blosc-zlib-noshuffle"`, `"blosc-blosclz"`, `"blosc-lz4hc"`,
		`["transpose","big","zstd","crc32c"]`, `["delta","blosc-lz4"]`, `["shuffle","zlib"]`,
		`[{"name":"transpose","configuration":{"order":[2,1,0]}},{"name":"gzip","configuration":{"level":1}}]`,
		`[{"name":"fixedscaleoffset","configuration":{"scale":1,"offset":10,"dtype":"<u2","astype":"<u4"}},"zstd"]`,
		`[{"name":"astype","configuration":{"encode_dtype":"<u4","decode_dtype":"<u2"}},"lz4"]`,
	} {
		for _, a := range []dataset.Array{base(), sharded, v2} {
			if read(a, codecs) != want {
				t.Errorf("format %d, shard %v, %s: other values than uncompressed", a.Format, a.Shard, codecs)
			}
		}
	}
	sharded.Encoder = "klauspost"
	if read(sharded, `"zstd"`) != want {
		t.Error("encoder klauspost: other values")
	}
	if got := read(sharded, `[{"name":"transpose","configuration":{"order":[1,2,0]}},"zstd"]`); got != want {
		t.Error("a transpose that is not its own inverse: other values")
	}
}

// Values, the fill of missing chunks and conversions, on an array whose content
// is known without any of our code.
func TestByHand(t *testing.T) {
	doc := `{"zarr_format":2,"shape":[3,4],"chunks":[2,2],"dtype":">i2","compressor":null,"fill_value":-7,"order":"F","filters":null}`
	meta, err := zarr.ParseArray([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	st := store.NewMemory(map[string][]byte{
		"a/0.0": {0, 1, 0, 3, 0, 2, 255, 252}, // column-major [[1,2],[3,-4]]
		"a/0.1": {0, 5, 0, 7, 0, 6, 1, 44},    // [[5,6],[7,300]]
	})
	r, err := New(st, "a/", meta, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f := func(box string, to nd.DType, want string) {
		t.Helper()
		b, err := nd.ParseBox(box)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Read(context.Background(), b, to)
		if err != nil || fmt.Sprintf("%d", got) != want {
			t.Errorf("%s %v: got %v, %v, want %s", box, to, got, err, want)
		}
	}
	f("0:2,0:4", nd.U8, "[1 2 5 6 3 0 7 255]")
	f("1:3,1:3", nd.I16, "[252 255 7 0 249 255 249 255]")
	f("2:2,0:4", nd.U8, "[]")
	if _, err := r.Read(context.Background(), nd.Box{{Start: 0, Stop: 4}, {Start: 0, Stop: 4}}, nd.U8); !errors.Is(err, nd.ErrShape) {
		t.Errorf("outside: %v", err)
	}
}

// A bad index or chunk is an error that names the chunk.
func TestCorrupt(t *testing.T) {
	a := base()
	a.Shard = []int64{8, 16, 32}
	r, dir := open(t, a, `"zstd"`)
	shard := filepath.Join(dir, "c/0/0/0")
	data, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[len(data)-4-8*16:], "\xff\xff\xff\xff\xff\x00\x00\x00")
	if err := os.WriteFile(shard, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = r.Read(context.Background(), nd.Whole(a.Shape), nd.U16)
	if !errors.Is(err, nd.ErrCorrupt) || !strings.Contains(err.Error(), "chunk [0 0 0]") {
		t.Errorf("got %v", err)
	}
}
