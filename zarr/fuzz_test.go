package zarr

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// checkKind: an error of metadata has exactly one of the three kinds.
func checkKind(t *testing.T, err error) {
	t.Helper()
	n := 0
	for _, kind := range []error{nd.ErrCorrupt, nd.ErrUnsupported, nd.ErrNotFound} {
		if errors.Is(err, kind) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("error of %d kinds: %v", n, err)
	}
}

// FuzzParseArray: whatever the document says, the answer is an error of a kind
// or an array on which all arithmetic of the package holds.
func FuzzParseArray(f *testing.F) {
	f.Add([]byte(baseV2))
	f.Add([]byte(baseV3))
	f.Add([]byte(strings.Replace(baseV3, `[{"name": "bytes"}]`, `[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[4,2],"codecs":["bytes","zstd"],"index_codecs":[{"name":"transpose","configuration":{"order":[2,0,1]}},{"name":"bytes","configuration":{"endian":"big"}},"crc32c"],"index_location":"start"}}]`, 1)))
	f.Add([]byte(strings.Replace(baseV2, `"fill_value": 0`, `"fill_value": NaN`, 1)))
	for _, doc := range writersDocs(f) {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		a, err := ParseArray(doc)
		if err != nil {
			checkKind(t, err)
			return
		}
		checkArray(t, a)
		again, err := ParseArray(doc)
		if err != nil || !bytes.Equal(again.Canonical(), a.Canonical()) {
			t.Errorf("a second parse differs: %v", err)
		}
		if b, err := a.WithAttributes(doc); err == nil && !json.Valid(b.Attributes) {
			t.Errorf("attributes are not JSON: %s", b.Attributes)
		}
	})
}

// writersDocs are the documents of the golden script of real writers.
func writersDocs(f *testing.F) [][]byte {
	script, err := os.ReadFile("testdata/golden/writers")
	if err != nil {
		f.Fatal(err)
	}
	var docs [][]byte
	for line := range bytes.Lines(script) {
		if line[0] == '{' {
			docs = append(docs, bytes.TrimSpace(line))
		}
	}
	return docs
}

// FuzzFill: a fill value of any type is one element or an error, and a float32
// or float64 that is written as a plain number is what strconv makes of it.
func FuzzFill(f *testing.F) {
	for _, fill := range []string{"1.5", "-0", `"NaN"`, `"0x7fc00000"`, "[1, -1e9]", `"AAAAAAAAAAA="`, "18446744073709551615", "true", "1e39"} {
		f.Add(fill)
	}
	f.Fuzz(func(t *testing.T, fill string) {
		raw := json.RawMessage(strings.TrimSpace(fill))
		if !json.Valid(raw) {
			return
		}
		for _, d := range nd.DTypes() {
			for _, v3 := range []bool{false, true} {
				got, err := fillReader{&parser{}, DType{DType: d, Name: d.Name()}, v3}.fill(raw)
				if err != nil {
					checkKind(t, err)
					continue
				}
				if len(got) != d.Size() {
					t.Fatalf("fill %s of %v is %x", raw, d, got)
				}
				checkPlain(t, string(raw), d, got)
			}
		}
	})
}

func checkPlain(t *testing.T, text string, d nd.DType, got []byte) {
	t.Helper()
	if !isNumber(text) {
		return
	}
	var want []byte
	switch d {
	case nd.F32:
		x, _ := strconv.ParseFloat(text, 32)
		want = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	case nd.F64:
		x, _ := strconv.ParseFloat(text, 64)
		want = binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
	case nd.I64:
		x, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return // "1e3" or "2.0"
		}
		want = binary.LittleEndian.AppendUint64(nil, uint64(x))
	default:
		return
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("fill %s of %v is %x, want %x", text, d, got, want)
	}
}

func checkArray(t *testing.T, a *Array) {
	t.Helper()
	rank := len(a.Shape)
	if rank > maxRank || len(a.Fill) != a.DType.Size() || a.DType.Size() == 0 || !json.Valid(a.Canonical()) {
		t.Fatalf("rank %d, fill %x of %v, canonical %s", rank, a.Fill, a.DType, a.Canonical())
	}
	if a.ChunkBytes() <= 0 || a.DimensionNames != nil && len(a.DimensionNames) != rank {
		t.Fatalf("chunk of %d bytes, names %q", a.ChunkBytes(), a.DimensionNames)
	}
	for i, l := range a.Levels {
		if len(l.Chunk) != rank || !isIdentity(slices.Sorted(slices.Values(l.Order))) || len(l.Order) != rank {
			t.Fatalf("level %d: chunk %v order %v", i, l.Chunk, l.Order)
		}
		if leaf := i == len(a.Levels)-1; leaf != (l.Index == nil) || !leaf && l.Filters != nil {
			t.Fatalf("level %d of %d: index %v filters %v", i, len(a.Levels), l.Index, l.Filters)
		}
		if l.Index == nil {
			continue
		}
		for s, axis := range l.Order {
			if l.Index.Counts[s]*a.Levels[i+1].Chunk[axis] != l.Chunk[axis] {
				t.Fatalf("level %d: %v chunks of %v in %v", i, l.Index.Counts, a.Levels[i+1].Chunk, l.Chunk)
			}
		}
		if l.Index.Size() < 16 {
			t.Fatalf("level %d: index of %d bytes", i, l.Index.Size())
		}
	}
	walk(t, a)
}

// walk looks at the first chunks and at the last one.
func walk(t *testing.T, a *Array) {
	t.Helper()
	n := 0
	for coord := range a.Chunks(nd.Whole(a.Shape)) {
		checkCoord(t, a, coord)
		if n++; n == 10 {
			break
		}
	}
	last := a.GridShape(len(a.Levels) - 1)
	for i := range last {
		if last[i]--; last[i] < 0 {
			return
		}
	}
	checkCoord(t, a, last)
}

func checkCoord(t *testing.T, a *Array, coord []int64) {
	t.Helper()
	for i, s := range a.ChunkBox(len(a.Levels)-1, coord) {
		if s.Start < 0 || s.Start >= a.Shape[i] || s.Stop <= s.Start {
			t.Fatalf("chunk %v covers %v of axis %d", coord, s, i)
		}
	}
	for level := range len(a.Levels) - 1 {
		child := a.Parent(nil, level+1, coord)
		if k := a.IndexOf(level, child); k < 0 || k >= a.Levels[level].Index.Entries() {
			t.Fatalf("chunk %v of level %d is entry %d", child, level+1, k)
		}
	}
	key := a.Key(a.Parent(nil, 0, coord))
	if clean, err := CleanPath(key); err != nil || clean != key {
		t.Fatalf("key %q", key)
	}
}

// FuzzGroup: groups, consolidated metadata and OME attributes never panic, and
// no path in the answer leaves the group.
func FuzzGroup(f *testing.F) {
	f.Add([]byte(`{"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "multiscales": [{"datasets": [{"path": "0"}]}]}}, "consolidated_metadata": {"kind": "inline", "metadata": {"a": {}}}}`))
	f.Add([]byte(`{"metadata": {"a/.zarray": {}}, "zarr_consolidated_format": 1}`))
	f.Add([]byte(`{"multiscales": [{"axes": ["y", {"name": "x"}], "datasets": [{"path": "s/0", "coordinateTransformations": [{"type": "scale", "scale": [1, 2]}, {"type": "translation", "translation": [1, 2]}]}], "coordinateTransformations": [{"type": "scale", "scale": [3]}]}], "labels": ["x"]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var paths []string
		g, err := ParseGroup(doc)
		attributes := json.RawMessage(doc)
		if err != nil {
			checkKind(t, err)
		} else if g.Attributes != nil {
			attributes = g.Attributes
			for path := range g.Consolidated {
				paths = append(paths, path)
			}
		}
		docs, err := ParseConsolidated(doc)
		if err != nil {
			checkKind(t, err)
		}
		for path := range docs {
			paths = append(paths, path)
		}
		all, err := ParseMultiscales(attributes)
		if err != nil {
			checkKind(t, err)
		}
		for _, m := range all {
			for _, l := range m.Levels {
				paths = append(paths, l.Path)
			}
		}
		labels, err := ParseLabels(attributes)
		if err != nil {
			checkKind(t, err)
		}
		for _, path := range append(paths, labels...) {
			if strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
				t.Errorf("path %q", path)
			}
		}
	})
}

// FuzzIndex compares Index.Parse with a twin that looks up every word by its
// coordinate and checks ranges in big integers. layout: bit 0 big-endian, 1
// checksum, 2 at the start, 3 transposed, 4 repair the checksum of raw.
func FuzzIndex(f *testing.F) {
	good := encodeIndex(&Index{Counts: []int64{2, 1}, Checksum: true}, []Entry{{0, 10}, {1<<64 - 1, 1<<64 - 1}})
	f.Add(byte(2), byte(2), byte(1), good, int64(100))
	f.Add(byte(31), byte(2), byte(3), bytes.Repeat(good, 3), int64(1000))
	f.Add(byte(4), byte(1), byte(1), []byte{16, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}, int64(20))
	f.Fuzz(func(t *testing.T, layout, n0, n1 byte, raw []byte, object int64) {
		ix := &Index{
			Counts: []int64{int64(n0%5) + 1, int64(n1%5) + 1},
			Big:    layout&1 != 0, Checksum: layout&2 != 0, AtStart: layout&4 != 0,
		}
		if layout&8 != 0 {
			ix.Order = []int{2, 0, 1}
		}
		if size := ix.Size(); ix.Checksum && layout&16 != 0 && int64(len(raw)) >= size {
			raw = slices.Clone(raw[:size])
			binary.LittleEndian.PutUint32(raw[size-4:], crc32.Checksum(raw[:size-4], crc32.MakeTable(crc32.Castagnoli)))
		}
		got, err := ix.Parse(nil, raw, object)
		if err != nil {
			if !errors.Is(err, nd.ErrCorrupt) || len(got) != 0 {
				t.Fatalf("%v with %d entries", err, len(got))
			}
		}
		want, ok := slowParse(ix, raw, object)
		if ok != (err == nil) || !slices.Equal(got, want) {
			t.Fatalf("%+v object %d raw %x\n got %v %v\nwant %v %v", *ix, object, raw, got, err, want, ok)
		}
	})
}

func slowParse(ix *Index, raw []byte, object int64) ([]Entry, bool) {
	n := ix.Counts[0] * ix.Counts[1]
	size := 16 * n
	if ix.Checksum {
		size += 4
	}
	if int64(len(raw)) != size || object < size {
		return nil, false
	}
	if ix.Checksum && binary.LittleEndian.Uint32(raw[size-4:]) != crc32.Checksum(raw[:size-4], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, false
	}
	wordAt := func(i, j, k int64) uint64 {
		at := (i*ix.Counts[1]+j)*2 + k
		if ix.Order != nil { // stored as [pair, counts 0, counts 1]
			at = (k*ix.Counts[0]+i)*ix.Counts[1] + j
		}
		if ix.Big {
			return binary.BigEndian.Uint64(raw[8*at:])
		}
		return binary.LittleEndian.Uint64(raw[8*at:])
	}
	var out []Entry
	for i := range ix.Counts[0] {
		for j := range ix.Counts[1] {
			e := Entry{wordAt(i, j, 0), wordAt(i, j, 1)}
			if !slowCheck(e, object, size, ix.AtStart) {
				return nil, false
			}
			out = append(out, e)
		}
	}
	return out, true
}

func slowCheck(e Entry, object, size int64, atStart bool) bool {
	const none = 1<<64 - 1
	if e.Offset == none && e.Length == none {
		return true
	}
	start := new(big.Int).SetUint64(e.Offset)
	stop := new(big.Int).Add(start, new(big.Int).SetUint64(e.Length))
	low, high := big.NewInt(0), big.NewInt(object-size)
	if atStart {
		low, high = big.NewInt(size), big.NewInt(object)
	}
	return start.Cmp(stop) < 0 && start.Cmp(low) >= 0 && stop.Cmp(high) <= 0
}
