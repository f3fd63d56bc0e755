package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

func chain(names ...string) scenario.Chain {
	var c scenario.Chain
	for _, n := range names {
		c = append(c, scenario.Codec{Name: n})
	}
	return c
}

func small(codecs ...string) Array {
	return Array{
		Path: "a/image", Shape: []int64{20, 30, 41}, Chunk: []int64{8, 16, 16},
		DType: nd.U16, Format: 3, Codecs: chain(codecs...), Level: 3, Field: "mask50", Entropy: 0.5, Seed: 42,
	}
}

func write(t *testing.T, root string, arrays ...Array) {
	t.Helper()
	if err := Write(context.Background(), root, arrays, nil); err != nil {
		t.Fatal(err)
	}
}

// files reads all files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// uncompressed puts an array of codec "none" together by the layout rules of
// zarr alone: C-order chunks in shards with a trailing index, edge chunks of
// full size.
func uncompressed(t *testing.T, root string, a Array) []byte {
	t.Helper()
	size := a.DType.Size()
	whole := make([]byte, a.Bytes())
	all := files(t, filepath.Join(root, a.Path))
	object := a.object()
	visit(a.Shape, func(at []int64) {
		key, inner := "c", int64(0)
		offset := int64(0)
		for i, x := range at {
			key += fmt.Sprintf("/%d", x/object[i])
			inner = inner*(object[i]/a.Chunk[i]) + x%object[i]/a.Chunk[i]
			offset = offset*a.Chunk[i] + x%a.Chunk[i]
		}
		file := all[key]
		if a.Shard != nil {
			n, _ := nd.Product(a.Shard)
			m, _ := nd.Product(a.Chunk)
			table := file[len(file)-4-16*int(n/m):]
			begin := binary.LittleEndian.Uint64([]byte(table[16*inner:]))
			file = file[begin:]
		}
		copy(whole[linear(a.Shape, at)*uint64(size):], file[offset*int64(size):][:size])
	})
	return whole
}

func visit(shape []int64, f func(at []int64)) {
	n, _ := nd.Product(shape)
	at := make([]int64, len(shape))
	for i := range n {
		for axis := len(shape) - 1; axis >= 0; axis-- {
			at[axis] = i % shape[axis]
			i /= shape[axis]
		}
		f(at)
	}
}

// The values must not depend on how the array is cut into chunks and shards:
// that is what lets two layouts be compared, and chunks be made in any order.
func TestValuesDoNotDependOnChunks(t *testing.T) {
	for _, field := range Fields() {
		for _, dtype := range []nd.DType{nd.U8, nd.U16, nd.F32, nd.I64} {
			root := t.TempDir()
			a := small("none")
			a.Field, a.DType = field, dtype
			b := a
			b.Path, b.Chunk, b.Shard = "b/image", []int64{5, 3, 10}, []int64{10, 9, 20}
			write(t, root, a, b)
			if x, y := uncompressed(t, root, a), uncompressed(t, root, b); !slices.Equal(x, y) {
				t.Errorf("%s %v: two layouts hold different values", field, dtype)
			}
		}
	}
}

// The values are part of what gen promises: same seed, same values, now and
// later. A change here breaks the comparison of figures across versions.
func TestValuesAreFrozen(t *testing.T) {
	want := map[string]uint32{}
	for line := range strings.FieldsSeq(frozen) {
		name, sum, _ := strings.Cut(line, "=")
		var v uint32
		if _, err := fmt.Sscanf(sum, "%08x", &v); err != nil {
			t.Fatal(err)
		}
		want[name] = v
	}
	var got strings.Builder
	for _, field := range Fields() {
		for _, dtype := range nd.DTypes() {
			a := small("none")
			a.Field, a.DType, a.Chunk = field, dtype, a.Shape
			c, err := newChunker(&a)
			if err != nil {
				t.Fatal(err)
			}
			data, err := c.chunk([]int64{0, 0, 0})
			if err != nil {
				t.Fatal(err)
			}
			name := field + "/" + dtype.String()
			sum := crc32.ChecksumIEEE(data)
			fmt.Fprintf(&got, "%s=%08x ", name, sum)
			if sum != want[name] {
				t.Errorf("%s: checksum %08x, want %08x", name, sum, want[name])
			}
		}
	}
	if t.Failed() {
		t.Log(got.String())
	}
}

// A shard's table must be what the format says, with holes for the chunks that
// lie outside the array.
func TestShardIndex(t *testing.T) {
	a := small("none")
	a.Shape, a.Chunk, a.Shard = []int64{5, 6}, []int64{2, 3}, []int64{4, 6}
	root := t.TempDir()
	write(t, root, a)
	all := files(t, filepath.Join(root, a.Path))
	shard, ok := all["c/1/0"]
	if !ok {
		t.Fatalf("no shard c/1/0 among %d files", len(all))
	}
	table := shard[len(shard)-4*16-4 : len(shard)-4]
	var words []uint64
	for at := 0; at < len(table); at += 8 {
		words = append(words, binary.LittleEndian.Uint64([]byte(table[at:])))
	}
	const none = ^uint64(0)
	if want := []uint64{0, 12, 12, 12, none, none, none, none}; !slices.Equal(words, want) {
		t.Errorf("table %v, want %v", words, want)
	}
	sum := crc32.Checksum([]byte(table), crc32.MakeTable(crc32.Castagnoli))
	if got := binary.LittleEndian.Uint32([]byte(shard[len(shard)-4:])); got != sum {
		t.Errorf("checksum %08x, want %08x", got, sum)
	}
}

// What an interrupted run has written is kept, what is complete is left alone,
// and an array is readable only once it is complete.
func TestResume(t *testing.T) {
	root, a := t.TempDir(), small("none")
	ctx, cancel := context.WithCancel(context.Background())
	err := Write(ctx, root, []Array{a}, func(done, total int64) {
		if done > total/3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a cancelled run", err)
	}
	dir := filepath.Join(root, a.Path)
	before := files(t, dir)
	if _, ok := before["zarr.json"]; ok {
		t.Fatal("an unfinished array can be opened")
	}
	chunk := ""
	for name := range before {
		if strings.HasPrefix(name, "c/") {
			chunk = name
		}
	}
	mark(t, filepath.Join(dir, chunk))
	write(t, root, a)
	after := files(t, dir)
	if after[chunk] != "mine" {
		t.Errorf("chunk %s of the interrupted run was written again", chunk)
	}
	if _, ok := after[marker]; ok || after["zarr.json"] == "" {
		t.Errorf("the finished array has files %v", slices.Sorted(keys(after)))
	}

	mark(t, filepath.Join(dir, "c/0/0/0"))
	var first, total int64 = -1, 0
	if err := Write(context.Background(), root, []Array{a}, func(d, n int64) {
		if first < 0 {
			first, total = d, n
		}
	}); err != nil {
		t.Fatal(err)
	}
	if files(t, dir)["c/0/0/0"] != "mine" || first != total {
		t.Errorf("a complete array was written again (%d of %d bytes at the start)", first, total)
	}

	b := a
	b.Seed++
	if err := Write(context.Background(), root, []Array{b}, nil); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), dir) {
		t.Errorf("another array under the same name: %v", err)
	}
}

// Files of an unfinished array are of no use to a run for another one.
func TestUnfinishedOther(t *testing.T) {
	root, a := t.TempDir(), small("none")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Write(ctx, root, []Array{a}, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	chunk := filepath.Join(root, a.Path, "c/0/0/0")
	if err := os.MkdirAll(filepath.Dir(chunk), 0o755); err != nil {
		t.Fatal(err)
	}
	mark(t, chunk)
	a.Seed = 7
	write(t, root, a)
	if got, _ := os.ReadFile(chunk); string(got) == "mine" {
		t.Error("the chunk of another array was kept")
	}
}

func mark(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Bad arrays are refused by name before any file is made.
func TestRefused(t *testing.T) {
	f := func(word string, edit func(a *Array)) {
		t.Helper()
		a, root := small("zstd"), t.TempDir()
		edit(&a)
		err := Write(context.Background(), root, []Array{a}, nil)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want an error with %q", err, word)
		}
		if made := files(t, root); len(made) > 0 {
			t.Errorf("%q: files were made: %v", word, made)
		}
	}
	f("below the root", func(a *Array) { a.Path = "../x" })
	f("rank", func(a *Array) { a.Chunk = a.Chunk[1:] })
	f("bfloat16", func(a *Array) { a.Format, a.DType = 2, nd.BF16 })
	f("mask50, lm", func(a *Array) { a.Field = "noise" })
	f("zstdd", func(a *Array) { a.Codecs = chain("zstdd") })
	f("put it before zstd", func(a *Array) { a.Codecs = chain("zstd", "delta") })
	f("filters", func(a *Array) { a.Codecs = chain("big", "delta") })
	f("libzstd or klauspost", func(a *Array) { a.Encoder = "gzip" })
	f("permutation", func(a *Array) { a.Codecs = chain("transpose", "transpose") })
}

// Zero-length and 0-d arrays have their own corners in the layout.
func TestSmallShapes(t *testing.T) {
	root := t.TempDir()
	empty, scalar := small("none"), small("none")
	empty.Path, empty.Shape = "empty", []int64{0, 30, 41}
	scalar.Path, scalar.Shape, scalar.Chunk, scalar.Field = "scalar", nil, nil, "constant"
	v2 := scalar
	v2.Path, v2.Format = "v2", 2
	write(t, root, empty, scalar)
	all := files(t, root)
	if len(all) != 4 || all["scalar/c"] != "\x07\x00" || !strings.Contains(all["scalar/zarr.json"], `"shape": []`) {
		t.Errorf("files %q", all)
	}
	root = t.TempDir()
	write(t, root, v2)
	if all = files(t, root); all["v2/0"] != "\x07\x00" || !strings.Contains(all["v2/.zarray"], `"shape": []`) {
		t.Errorf("files %q", all)
	}
}
