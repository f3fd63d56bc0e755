package zarr

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// arrayDoc makes a zarr.json of uint16 with fill value 0.
func arrayDoc(t *testing.T, shape, chunk []int64, codecs []codecSpec) []byte {
	t.Helper()
	doc, err := json.Marshal(map[string]any{
		"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint16", "fill_value": 0,
		"chunk_grid":         map[string]any{"name": "regular", "configuration": map[string]any{"chunk_shape": chunk}},
		"chunk_key_encoding": "default", "codecs": codecs,
	})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// randomCodecs makes a codec list for chunks of the given stored shape, with up
// to depth shards in each other.
func randomCodecs(r *rand.Rand, shape []int64, depth int) []codecSpec {
	var codecs []codecSpec
	for range r.IntN(3) {
		order := r.Perm(len(shape))
		codecs = append(codecs, spec("transpose", map[string]any{"order": order}))
		next := make([]int64, len(shape))
		for i, axis := range order {
			next[i] = shape[axis]
		}
		shape = next
	}
	endian := []string{"little", "big"}
	if depth == 0 {
		codecs = append(codecs, spec("bytes", map[string]any{"endian": endian[r.IntN(2)]}))
	} else {
		inner := make([]int64, len(shape))
		for i, n := range shape {
			inner[i] = divisor(r, n)
		}
		index := []codecSpec{spec("bytes", map[string]any{"endian": endian[r.IntN(2)]})}
		if r.IntN(2) == 0 {
			index = append(index, codecSpec{Name: "crc32c"})
		}
		if r.IntN(2) == 0 {
			index = slices.Insert(index, 0, spec("transpose", map[string]any{"order": r.Perm(len(shape) + 1)}))
		}
		codecs = append(codecs, spec("sharding_indexed", map[string]any{
			"chunk_shape": inner, "codecs": randomCodecs(r, inner, depth-1),
			"index_codecs": index, "index_location": []string{"start", "end"}[r.IntN(2)],
		}))
	}
	if r.IntN(3) == 0 {
		codecs = append(codecs, codecSpec{Name: "crc32c"})
	}
	return codecs
}

func spec(name string, config map[string]any) codecSpec {
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return codecSpec{name, raw}
}

func divisor(r *rand.Rand, n int64) int64 {
	for {
		if d := 1 + r.Int64N(n); n%d == 0 {
			return d
		}
	}
}

// TestLayout writes random arrays, of any rank, with transposes before, between
// and inside shards, and reads every element back through Levels, Key, IndexOf
// and Index.Parse. The writer applies the codecs one by one to real elements.
func TestLayout(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		rank := r.IntN(5)
		shape, chunk := make([]int64, rank), make([]int64, rank)
		for i := range shape {
			chunk[i] = []int64{1, 2, 3, 4, 6}[r.IntN(5)]
			shape[i] = r.Int64N(9)
		}
		codecs := randomCodecs(r, chunk, r.IntN(3))
		a, err := ParseArray(arrayDoc(t, shape, chunk, codecs))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		whole := block{shape: shape}
		for i := range product(shape) {
			whole.data = append(whole.data, uint16(i%997+1)*uint16(min(1, r.IntN(4))))
		}
		grid := a.GridShape(0)
		objects := map[string][]byte{}
		for linear := range product(grid) {
			b := whole.cut(origin(linear, grid, chunk), chunk)
			objects[a.Key(unravel(linear, grid))] = writer{r}.encode(codecs, b)
		}
		checkElements(t, fmt.Sprintf("seed %d", seed), a, objects, whole)
	}
}

func checkElements(t *testing.T, name string, a *Array, objects map[string][]byte, want block) {
	t.Helper()
	for linear := range product(want.shape) {
		x := unravel(linear, want.shape)
		raw, err := readElement(a, objects, x)
		if err != nil {
			t.Fatalf("%s: element %v: %v", name, x, err)
		}
		if got := word(a, raw); got != want.at(x) {
			t.Fatalf("%s: element %v is %d, want %d\n%s", name, x, got, want.at(x), describe(a))
		}
	}
}

func word(a *Array, raw []byte) uint16 {
	switch {
	case len(raw) == 1:
		return uint16(raw[0])
	case a.Leaf().Big:
		return binary.BigEndian.Uint16(raw)
	}
	return binary.LittleEndian.Uint16(raw)
}

// TestRealShards reads objects that zarr-python 3.1.6 and tensorstore wrote from
// 0, 1, 2, … (tensorstore: from 1 on).
func TestRealShards(t *testing.T) {
	for _, s := range []struct {
		name, codecs, key, object string
		shape                     []int64
		dtype                     string
		first                     uint16
	}{
		{
			"zarr-python, counts 3 1 2",
			`[{"name":"sharding_indexed","configuration":{"chunk_shape":[1,6,4],"codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"index_location":"end"}}]`,
			"c/0/0/0",
			"0001020308090a0b1011121318191a1b2021222328292a2b3031323338393a3b4041424348494a4b5051525358595a5b040506070c0d0e0f141516171c1d1e1f242526272c2d2e2f343536373c3d3e3f444546474c4d4e4f545556575c5d5e5f6061626368696a6b7071727378797a7b8081828388898a8b646566676c6d6e6f747576777c7d7e7f848586878c8d8e8f0000000000000000180000000000000030000000000000001800000000000000180000000000000018000000000000004800000000000000180000000000000060000000000000001800000000000000780000000000000018000000000000006f199766",
			[]int64{3, 6, 8},
			"uint8", 0,
		},
		{
			"zarr-python, transpose before, crc32c around",
			`[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[2,4],"codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"big"}}],"index_location":"start"}},{"name":"crc32c"}]`,
			"c/0/0",
			"00000000000000200000000000000008000000000000002800000000000000080004080c0105090d02060a0e03070b0fb71ca4ab",
			[]int64{4, 4},
			"uint8", 0,
		},
		{
			"tensorstore, transposes before, inside and in the index",
			`[{"name":"transpose","configuration":{"order":[1,2,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[3,1,2],"codecs":[{"name":"transpose","configuration":{"order":[2,0,1]}},{"name":"bytes","configuration":{"endian":"big"}}],"index_codecs":[{"name":"transpose","configuration":{"order":[3,1,0,2]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"crc32c"}],"index_location":"start"}}]`,
			"c/0/0/0",
			"0000000000000084000000000000009000000000000000b400000000000000c0000000000000009c00000000000000a800000000000000cc00000000000000d8000000000000000c000000000000000c000000000000000c000000000000000c000000000000000c000000000000000c000000000000000c000000000000000c52c1d731000100030005000d000f00110019001b001d002500270029000200040006000e00100012001a001c001e00260028002a00070009000b001300150017001f00210023002b002d002f0008000a000c001400160018002000220024002c002e0030",
			[]int64{4, 6, 2},
			"uint16", 1,
		},
		{
			"tensorstore, shards in a shard",
			`[{"name":"sharding_indexed","configuration":{"chunk_shape":[4,4],"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[2,4],"codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}]}}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}]`,
			"c/0/0",
			"0102030405060708090a0b0c0d0e0f10000000000000000008000000000000000800000000000000080000000000000012a46c811112131415161718191a1b1c1d1e1f20000000000000000008000000000000000800000000000000080000000000000012a46c810000000000000000340000000000000034000000000000003400000000000000",
			[]int64{8, 4},
			"uint8", 1,
		},
	} {
		shape, _ := json.Marshal(s.shape)
		doc := overlay(t, baseV3, fmt.Sprintf("shape: %s\ndata_type: %q\ncodecs: %s\nchunk_grid: %s", shape, s.dtype, s.codecs,
			`{"name":"regular","configuration":{"chunk_shape":`+string(shape)+`}}`))
		a, err := ParseArray(doc)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		object, err := hex.DecodeString(s.object)
		if err != nil {
			t.Fatal(err)
		}
		want := block{shape: s.shape}
		for i := range product(s.shape) {
			want.data = append(want.data, uint16(i)+s.first)
		}
		checkElements(t, s.name, a, map[string][]byte{s.key: object}, want)
	}
}

// TestPermutations compares all six orders of a 2x3x4 chunk with what
// zarr-python 3.1.6 writes. [1,2,0] and [2,0,1] are not their own inverses, so
// a reader that mixes up an order and its inverse fails on them alone.
func TestPermutations(t *testing.T) {
	want := block{shape: []int64{2, 3, 4}}
	for i := range 24 {
		want.data = append(want.data, uint16(i))
	}
	for order, object := range map[string]string{
		"[0,1,2]": "000102030405060708090a0b0c0d0e0f1011121314151617",
		"[0,2,1]": "00040801050902060a03070b0c10140d11150e12160f1317",
		"[1,0,2]": "000102030c0d0e0f040506071011121308090a0b14151617",
		"[1,2,0]": "000c010d020e030f0410051106120713081409150a160b17",
		"[2,0,1]": "0004080c10140105090d111502060a0e121603070b0f1317",
		"[2,1,0]": "000c04100814010d05110915020e06120a16030f07130b17",
	} {
		a, err := ParseArray(overlay(t, baseV3, `shape: [2,3,4]
			chunk_grid: {"name":"regular","configuration":{"chunk_shape":[2,3,4]}}
			codecs: [{"name":"transpose","configuration":{"order":`+order+`}},"bytes"]`))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(object)
		if err != nil {
			t.Fatal(err)
		}
		checkElements(t, order, a, map[string][]byte{"c/0/0/0": raw}, want)
	}
}

// TestChunks compares Chunks with the set of chunks of all elements of the box.
func TestChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		rank := r.IntN(4)
		shape, chunk := make([]int64, rank), make([]int64, rank)
		box := make(nd.Box, rank)
		for i := range shape {
			shape[i], chunk[i] = r.Int64N(8), 1+r.Int64N(9)
			box[i].Start = r.Int64N(14) - 4
			box[i].Stop = box[i].Start + r.Int64N(8)
		}
		a := &Array{Shape: shape, Levels: []Level{{Chunk: chunk}}}
		var want [][]int64
		for linear := range product(shape) {
			x := unravel(linear, shape)
			inside := true
			for i := range x {
				inside = inside && x[i] >= box[i].Start && x[i] < box[i].Stop
				x[i] /= chunk[i]
			}
			if inside && !slices.ContainsFunc(want, func(c []int64) bool { return slices.Equal(c, x) }) {
				want = append(want, x)
			}
		}
		slices.SortFunc(want, slices.Compare)
		var got [][]int64
		for coord := range a.Chunks(box) {
			got = append(got, slices.Clone(coord))
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("shape %v chunk %v box %v: %v, want %v", shape, chunk, box, got, want)
		}
	}
}

// TestIndexOf checks, for nested levels with an order, that the children of each
// parent fill its index exactly, in C order of the stored axes, and that Parent
// names their parent.
func TestIndexOf(t *testing.T) {
	a := &Array{Shape: []int64{20, 30, 13}, Levels: []Level{
		{Chunk: []int64{12, 10, 8}, Order: []int{1, 2, 0}, Index: &Index{Counts: []int64{2, 4, 3}}},
		{Chunk: []int64{4, 5, 2}, Order: []int{2, 0, 1}, Index: &Index{Counts: []int64{1, 2, 5}}},
		{Chunk: []int64{2, 1, 2}, Order: []int{0, 1, 2}},
	}}
	for level := range 2 {
		l := a.Levels[level]
		for parent := range product(a.GridShape(level)) {
			p := unravel(parent, a.GridShape(level))
			for k := range l.Index.Entries() {
				stored := unravel(k, l.Index.Counts)
				child := make([]int64, 3)
				for i, axis := range l.Order {
					child[axis] = p[axis]*l.Index.Counts[i] + stored[i]
				}
				if got := a.IndexOf(level, child); got != k {
					t.Fatalf("level %d parent %v: chunk %v is entry %d, want %d", level, p, child, got, k)
				}
				if level == 1 && !slices.Equal(a.Parent(nil, 1, child), p) {
					t.Fatalf("parent of %v is %v, want %v", child, a.Parent(nil, 1, child), p)
				}
				box := a.ChunkBox(level+1, child)
				if outer := a.ChunkBox(level, p); !contains(outer, box) {
					t.Fatalf("chunk %v of level %d lies outside of its parent %v: %v, %v", child, level+1, p, box, outer)
				}
			}
		}
	}
}

func contains(outer, inner nd.Box) bool {
	for i := range outer {
		if inner[i].Start < outer[i].Start || inner[i].Stop > outer[i].Stop {
			return false
		}
	}
	return true
}

// TestHugeGrid walks a part of a grid of 2^80 chunks: nothing may depend on the
// number of chunks, and coordinates need more than 40 bits.
func TestHugeGrid(t *testing.T) {
	a, err := ParseArray(overlay(t, baseV3, `shape: [4398046511104, 4398046511104]
		chunk_grid: {"name":"regular","configuration":{"chunk_shape":[4,8]}}
		codecs: [{"name":"sharding_indexed","configuration":{"chunk_shape":[2,2],"codecs":["bytes"]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1) << 41
	var got []string
	for coord := range a.Chunks(nd.Box{{Start: at, Stop: at + 3}, {Start: at + 1, Stop: at + 2}}) {
		got = append(got, fmt.Sprint(a.Key(a.Parent(nil, 0, coord)), " ", a.IndexOf(0, coord)))
	}
	want := []string{"c/549755813888/274877906944 0", "c/549755813888/274877906944 4"}
	if !slices.Equal(got, want) {
		t.Errorf("chunks %q, want %q", got, want)
	}
	coord := []int64{at, at}
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { buf = a.AppendKey(buf[:0], coord); _ = a.IndexOf(0, coord) }); n != 0 {
		t.Errorf("AppendKey and IndexOf allocate %v times", n)
	}
}
