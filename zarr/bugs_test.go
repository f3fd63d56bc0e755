package zarr

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// The tests of this file are situations that other readers got wrong, by the
// name of the report.

func mustParse(t *testing.T, base, lines string) *Array {
	t.Helper()
	a, err := ParseArray(overlay(t, base, lines))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantKind(t *testing.T, err, kind error, part string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want %v naming %q", err, kind, part)
	}
}

const littleIndex = `"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]`

// zarr-python 2018: ones of float64, shard (20,1000), inner (1,1000); reading row
// 1 raised. Row 1 is the second entry of the first shard.
func TestRowOfShard(t *testing.T) {
	a := mustParse(t, baseV3, `shape: [1000, 1000]
		data_type: "float64"
		chunk_grid: {"name": "regular", "configuration": {"chunk_shape": [20, 1000]}}
		codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1000], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], `+littleIndex+`}}]`)
	n := 0
	for coord := range a.Chunks(nd.Box{{Start: 1, Stop: 2}, {Start: 0, Stop: 1000}}) {
		n++
		if key, k := a.Key(a.Parent(nil, 0, coord)), a.IndexOf(0, coord); key != "c/0/0" || k != 1 {
			t.Errorf("row 1 is entry %d of %s", k, key)
		}
	}
	if n != 1 {
		t.Errorf("row 1 touches %d chunks", n)
	}
}

// gdal 13929: shard (3,6,8) of inner (1,6,4) has counts [3,1,2]. Chunk (1,0,0)
// was looked up at entry 3, as if the last count were 1.
func TestAsymmetricCounts(t *testing.T) {
	a := mustParse(t, baseV3, `shape: [3, 6, 8]
		chunk_grid: {"name": "regular", "configuration": {"chunk_shape": [3, 6, 8]}}
		codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 6, 4], "codecs": ["bytes"], `+littleIndex+`}}]`)
	for want, coord := range [][]int64{{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}, {2, 0, 0}, {2, 0, 1}} {
		if got := a.IndexOf(0, coord); got != int64(want) {
			t.Errorf("chunk %v is entry %d, want %d", coord, got, want)
		}
	}
}

// zarrita.js 424: without crc32c among the index codecs the index has 16 bytes a
// chunk and no more; 4 bytes too many shifted all offsets.
func TestIndexWithoutChecksum(t *testing.T) {
	for codecs, want := range map[string]int64{
		`[{"name": "bytes", "configuration": {"endian": "little"}}]`:           64,
		`[{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]`: 68,
	} {
		a := mustParse(t, baseV3, `codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "codecs": ["bytes"], "index_codecs": `+codecs+`}}]`)
		ix := a.Levels[0].Index
		if got := ix.Size(); got != want {
			t.Errorf("%s: index of %d bytes, want %d", codecs, got, want)
		}
		if got := ix.Offset(1000); got != 1000-want {
			t.Errorf("%s: index at %d", codecs, got)
		}
	}
}

// Zarr.jl: with the index at the start, offsets count from the first byte of the
// shard all the same, not from the end of the index.
func TestOffsetsWithIndexAtStart(t *testing.T) {
	ix := &Index{Counts: []int64{2}, AtStart: true}
	want := []Entry{{32, 8}, {40, 8}}
	got, err := ix.Parse(nil, encodeIndex(ix, want), 48)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("entries %v, %v", got, err)
	}
}

// zarrita.js 445: (3,4,5) stored in order [2,1,0], value 20i+5j+k. [:,:,3] gave
// 5, 10, … and [1,2,3] gave 35: the strides of the wrong order.
func TestReversedOrder(t *testing.T) {
	a := mustParse(t, baseV3, `shape: [3, 4, 5]
		chunk_grid: {"name": "regular", "configuration": {"chunk_shape": [3, 4, 5]}}
		codecs: [{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, "bytes"]`)
	var object []byte // stored axes k, j, i
	for k := range 5 {
		for j := range 4 {
			for i := range 3 {
				object = append(object, byte(20*i+5*j+k))
			}
		}
	}
	objects := map[string][]byte{"c/0/0/0": object}
	at := func(i, j, k int64) byte {
		raw, err := readElement(a, objects, []int64{i, j, k})
		if err != nil {
			t.Fatal(err)
		}
		return raw[0]
	}
	if got := at(1, 2, 3); got != 33 {
		t.Errorf("[1,2,3] is %d, want 33", got)
	}
	want := byte(3)
	for i := range int64(3) {
		for j := range int64(4) {
			if got := at(i, j, 3); got != want {
				t.Errorf("[%d,%d,3] is %d, want %d", i, j, got, want)
			}
			want += 5
		}
	}
}

// zarr-java 33: a shard in which only some chunks are stored was read as all
// fill. Present chunks show, missing ones are the fill value.
func TestPartlyWrittenShard(t *testing.T) {
	a := mustParse(t, baseV3, `fill_value: 9
		codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [4, 4], "codecs": ["bytes"], `+littleIndex+`}}]`)
	chunk := make([]byte, 16)
	for i := range chunk {
		chunk[i] = 5
	}
	object := append(chunk, encodeIndex(a.Levels[0].Index, []Entry{{1<<64 - 1, 1<<64 - 1}, {0, 16}})...)
	for x, want := range map[[2]int64]byte{{0, 0}: 9, {3, 3}: 9, {0, 4}: 5, {3, 7}: 5, {4, 4}: 9} {
		got, err := readElement(a, map[string][]byte{"c/0/0": object}, x[:])
		if err != nil || got[0] != want {
			t.Errorf("element %v is %v (%v), want %d", x, got, err, want)
		}
	}
}

// zarr-java 95, zarr-python 1279 and 2675: v2 order F. The metadata decide, not
// what a writer usually does: the bytes of a chunk are column-major if they say
// F, and row-major if they say C.
func TestOrderF(t *testing.T) {
	raw, err := hex.DecodeString("00000000000000040000000800000001000000050000000900000002000000060000000a00000003000000070000000b")
	if err != nil {
		t.Fatal(err)
	}
	for order, want := range map[string][]byte{
		"F": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		"C": {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11},
	} {
		a := mustParse(t, baseV2, `shape: [3, 4]
			chunks: [3, 4]
			dtype: ">i4"
			order: "`+order+`"`)
		for linear := range int64(12) {
			got, err := readElement(a, map[string][]byte{"0.0": raw}, unravel(linear, a.Shape))
			if err != nil || got[3] != want[linear] {
				t.Errorf("order %s: element %d is %x (%v), want %d", order, linear, got, err, want[linear])
			}
		}
	}
}

// zarr-python 2296 and 3005, tensorstore 58: keys of netcdf-c were refused, and
// so were "<u1" and ">i4".
func TestTolerantV2(t *testing.T) {
	a := mustParse(t, baseV2, `_nczarr_array: {"dimrefs": ["/x"]}
		dtype: "<u1"`)
	if a.DType.DType != nd.U8 {
		t.Errorf("dtype %v", a.DType)
	}
	a = mustParse(t, baseV2, `dtype: ">i4"`)
	if a.DType.DType != nd.I32 || !a.Leaf().Big {
		t.Errorf("dtype %v big %v", a.DType, a.Leaf().Big)
	}
}

// zarr-python 3523: a member that is not known is accepted with must_understand
// false, and refused without it.
func TestMustUnderstand(t *testing.T) {
	mustParse(t, baseV3, `extra: {"must_understand": false}`)
	_, err := ParseArray(overlay(t, baseV3, `extra: {"must_understand": "false"}`))
	wantKind(t, err, nd.ErrUnsupported, `"extra"`)
}

// zarr-python 3079, mobie 572, zarrita.js 352, n5-zarr 81: a fill value "0.0" for
// a number is 0 with a note, "NaN" is not 0, and "0x7fc00000" does not crash.
func TestFillOfOtherWriters(t *testing.T) {
	for fill, want := range map[string]string{`"0.0"`: "00000000", `"NaN"`: "0000c07f", `"0x7fc00000"`: "0000c07f"} {
		a := mustParse(t, baseV3, `data_type: "float32"
			codecs: [{"name": "bytes", "configuration": {"endian": "little"}}]
			fill_value: `+fill)
		if got := hex.EncodeToString(a.Fill); got != want || (fill == `"0.0"`) != (a.Notes != nil) {
			t.Errorf("fill %s is %s, notes %q", fill, got, a.Notes)
		}
	}
	a := mustParse(t, baseV2, `fill_value: "0"`)
	if a.Fill[0] != 0 || a.Notes == nil {
		t.Errorf("fill %x, notes %q", a.Fill, a.Notes)
	}
}

// zarr-python 2282 and 2792, 4142: text and struct types whose fill values and
// byte order were misread. They are refused by name until they are read right.
func TestRefusedTypes(t *testing.T) {
	for dtype, part := range map[string]string{`"|S5"`: "|S5", `"<U3"`: "<U3", `[["a", ">i4"]]`: "structured", `"|V8"`: "|V8", `"|O"`: "|O"} {
		_, err := ParseArray(overlay(t, baseV2, "dtype: "+dtype+"\nfill_value: \"AAAAAAA=\""))
		wantKind(t, err, nd.ErrUnsupported, part)
	}
	for dtype, part := range map[string]string{`"string"`: "string", `{"name": "struct", "configuration": {"fields": [["a", "int32"]]}}`: "struct", `"r16"`: "r16"} {
		_, err := ParseArray(overlay(t, baseV3, "data_type: "+dtype))
		wantKind(t, err, nd.ErrUnsupported, part)
	}
}

// ome-zarr-py 343 and others: "/" assumed while the chunks are "0.0", or the
// reverse, gave silent zeros. The document decides; where it says nothing, it is
// ".". A reader that finds other keys makes a copy, with a note.
func TestSeparator(t *testing.T) {
	coord := []int64{1, 2}
	for lines, want := range map[string]string{
		`dimension_separator: "/"`: "1/2",
		`dimension_separator: "."`: "1.2",
		`-dimension_separator`:     "1.2",
	} {
		a := mustParse(t, baseV2, lines)
		b := a.WithKeys(KeyEncoding{Separator: '/'}, "probed")
		if b.Key(coord) != "c/1/2" || a.Key(coord) != want || len(b.Notes) != len(a.Notes)+1 {
			t.Errorf("%s: key %s; the copy has %s and notes %q", lines, a.Key(coord), b.Key(coord), b.Notes)
		}
	}
}

// The four forms of keys differ for two axes or more; that is what a probe of a
// folder rests on. With fewer axes some are the same.
func TestKeyEncodings(t *testing.T) {
	for rank, want := range []string{"c c 0 0", "c/0 c.0 0 0", "c/0/0 c.0.0 0.0 0/0"} {
		var keys []string
		for _, k := range KeyEncodings() {
			keys = append(keys, k.Key(make([]int64, rank)))
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("rank %d: %s, want %s", rank, got, want)
		}
	}
}

// zarr-python 2030: gzip among the index codecs makes the size of the index
// unknown; the reason is given at open.
func TestCompressedIndex(t *testing.T) {
	_, err := ParseArray(overlay(t, baseV3, `codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "codecs": ["bytes"], "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "gzip"]}}]`))
	wantKind(t, err, nd.ErrUnsupported, `"gzip" in index_codecs: the size`)
}

// zarr-python 1976: arrays without axes hold one element, arrays with an axis of
// extent 0 none.
func TestScalarAndEmpty(t *testing.T) {
	count := func(a *Array) (n int) {
		for range a.Chunks(nd.Whole(a.Shape)) {
			n++
		}
		return n
	}
	a := mustParse(t, baseV3, `shape: []
		chunk_grid: {"name": "regular", "configuration": {"chunk_shape": []}}`)
	if count(a) != 1 || a.ChunkBytes() != 1 || a.Key(nil) != "c" {
		t.Errorf("scalar: %d chunks of %d bytes at %q", count(a), a.ChunkBytes(), a.Key(nil))
	}
	a = mustParse(t, baseV2, `shape: []
		chunks: []`)
	if count(a) != 1 || a.Key(nil) != "0" {
		t.Errorf("v2 scalar: %d chunks at %q", count(a), a.Key(nil))
	}
	if a = mustParse(t, baseV3, `shape: [0, 20]`); count(a) != 0 || !slices.Equal(a.GridShape(0), []int64{0, 3}) {
		t.Errorf("empty: %d chunks in %v", count(a), a.GridShape(0))
	}
}

// iohub 442, zarrs 420: a job killed while it wrote left a shard that is smaller
// than its index. That is an error of its own, not a range outside the file.
func TestTornShard(t *testing.T) {
	a := mustParse(t, baseV3, `shape: [67, 3, 1068, 256, 1664]
		chunk_grid: {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1072, 256, 1792]}}
		codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1, 16, 256, 256], "codecs": ["bytes"], `+littleIndex+`}}]`)
	ix := a.Levels[0].Index
	if want := int64(67*7*16 + 4); ix.Size() != want {
		t.Fatalf("index of %d bytes, want %d", ix.Size(), want)
	}
	_, err := ix.Parse(nil, make([]byte, 4096), 4096)
	wantKind(t, err, nd.ErrCorrupt, "shard of 4096 bytes is smaller than its index of 7508")

	raw := encodeIndex(ix, make([]Entry, ix.Entries()))
	raw[0] ^= 1
	_, err = ix.Parse(nil, raw, 1<<30)
	wantKind(t, err, nd.ErrCorrupt, "checksum")
}

// gdal 7898, ngff-validator 51: negative, huge or mismatched shapes and chunks
// crashed readers or made them allocate.
func TestImpossibleShapes(t *testing.T) {
	grid := func(chunk string) string {
		return `chunk_grid: {"name": "regular", "configuration": {"chunk_shape": ` + chunk + `}}`
	}
	for _, lines := range []string{
		"shape: [-1, 20]", "shape: [10]", "shape: [1e30, 20]", "shape: [9223372036854775807, 20]",
		grid("[0, 8]"), grid("[-4, 8]"), grid("[4]"), grid("[4, 8, 1]"), grid("[4, 18446744073709551615]"),
		grid("[4611686018427387904, 4611686018427387904]"),
	} {
		_, err := ParseArray(overlay(t, baseV3, lines))
		wantKind(t, err, nd.ErrCorrupt, "")
	}
}

// zarr-python 4202: codecs outside the shard were skipped when only a part of it
// was read. They are on the shard's own level, where a reader meets them first.
func TestCodecsAroundShard(t *testing.T) {
	a := mustParse(t, baseV3, `codecs: [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "sharding_indexed", "configuration": {"chunk_shape": [8, 2], "codecs": ["bytes", "zstd"], `+littleIndex+`}}, "gzip", "crc32c"]`)
	var outer []string
	for _, c := range a.Levels[0].Bytes {
		outer = append(outer, c.Name)
	}
	if !slices.Equal(outer, []string{"gzip", "crc32c"}) || !slices.Equal(a.Levels[0].Order, []int{1, 0}) {
		t.Errorf("outer codecs %q order %v", outer, a.Levels[0].Order)
	}
	if !slices.Equal(a.ChunkShape(), []int64{2, 8}) || a.Leaf().Bytes[0].Name != "zstd" {
		t.Errorf("inner chunk %v codecs %v", a.ChunkShape(), a.Leaf().Bytes)
	}
}

// Documents are bounded, whoever wrote them.
func TestBoundedMetadata(t *testing.T) {
	_, err := ParseArray(make([]byte, MaxDocument+1))
	wantKind(t, err, nd.ErrUnsupported, "metadata of 16777217 bytes")
	_, err = ParseArray([]byte(`{"attributes": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`))
	wantKind(t, err, nd.ErrUnsupported, "nested deeper than 128")
	_, err = ParseArray(overlay(t, baseV3, "data_type: \"float32\"\nfill_value: 0."+strings.Repeat("1", 2000)))
	wantKind(t, err, nd.ErrCorrupt, "")
	if a, err := ParseArray(append([]byte("\xef\xbb\xbf"), baseV3...)); err != nil || len(a.Shape) != 2 {
		t.Errorf("byte order mark: %v", err)
	}
}
