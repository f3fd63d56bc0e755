package pipeline

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// testArray is an array made for a test, together with its plain values: what
// the pipeline must find is looked up there, element by element.
type testArray struct {
	shape  []int64
	dtype  nd.DType
	values []byte // C order, little-endian
	files  map[string][]byte
}

// layout is how a testArray is stored.
type layout struct {
	shape, chunk, shard []int64 // shard nil: a file a chunk
	dtype               nd.DType
	order               []int // transpose, nil for none
	big                 bool
	codec               string // in the order of encoding: "", "zstd", "shuffle+lz4+crc32c", "blosc:zstd", "zstd:sum"
	smooth              bool   // neighbours are alike, so that codecs have something to do
	missing             int    // one of so many chunks is not stored, 0 for none
	indexAtStart        bool
	fill                int // small fill value
}

// makeArray writes an array of random values. Chunks that are not stored hold
// the fill value.
func makeArray(t testing.TB, r *rand.Rand, l layout) *testArray {
	t.Helper()
	a := &testArray{shape: l.shape, dtype: l.dtype, files: map[string][]byte{}}
	size := int64(l.dtype.Size())
	n, _ := nd.Product(l.shape)
	a.values = make([]byte, n*size)
	for i := range a.values {
		a.values[i] = byte(r.IntN(256))
		if l.dtype == nd.Bool {
			a.values[i] &= 1
		}
	}
	if l.smooth {
		smooth(r, a.values, l.dtype.Size())
	}
	a.files["zarr.json"] = l.metadata()
	outer := l.chunk
	if l.shard != nil {
		outer = l.shard
	}
	eachCoord(counts(l.shape, outer), func(c []int64) {
		data, ok := l.object(t, r, a, c)
		if ok {
			a.files[key(c)] = data
		}
	})
	return a
}

// stored is a store that holds the array's files under a name.
func (a *testArray) stored(name string) *store.Memory {
	under := map[string][]byte{}
	for k, v := range a.files {
		under[name+"/"+k] = v
	}
	return store.NewMemory(under)
}

func (l *layout) metadata() []byte {
	type m = map[string]any
	endian := "little"
	if l.big {
		endian = "big"
	}
	var chain []any
	if l.order != nil {
		chain = append(chain, m{"name": "transpose", "configuration": m{"order": l.order}})
	}
	chain = append(chain, m{"name": "bytes", "configuration": m{"endian": endian}})
	for _, c := range l.stages() {
		name := c.Name
		switch name {
		case "lz4", "zlib", "shuffle":
			name = "numcodecs." + name
		}
		chain = append(chain, m{"name": name, "configuration": c.Config})
	}
	outer := l.chunk
	if l.shard != nil {
		outer = l.shard
		at := "end"
		if l.indexAtStart {
			at = "start"
		}
		chain = []any{m{"name": "sharding_indexed", "configuration": m{
			"chunk_shape": l.chunk, "codecs": chain, "index_location": at,
			"index_codecs": []any{m{"name": "bytes", "configuration": m{"endian": "little"}}, m{"name": "crc32c"}},
		}}}
	}
	var fill any = l.fill
	if l.dtype == nd.Bool {
		fill = l.fill != 0
	}
	if l.dtype.Complex() {
		fill = []int{l.fill, 0}
	}
	doc, err := json.Marshal(m{
		"zarr_format": 3, "node_type": "array", "shape": l.shape, "data_type": l.dtype.Name(),
		"chunk_grid":         m{"name": "regular", "configuration": m{"chunk_shape": outer}},
		"chunk_key_encoding": m{"name": "default", "configuration": m{"separator": "/"}},
		"fill_value":         fill, "codecs": chain, "attributes": m{},
	})
	if err != nil {
		panic(err)
	}
	return doc
}

// object encodes one stored object; ok is false when it is left out.
func (l *layout) object(t testing.TB, r *rand.Rand, a *testArray, c []int64) (data []byte, ok bool) {
	if l.shard == nil {
		return l.chunkBytes(t, r, a, c)
	}
	grid := counts(l.shard, l.chunk)
	var index []byte
	head := int64(0)
	n, _ := nd.Product(grid)
	if l.indexAtStart {
		head = 16*n + 4
	}
	eachCoord(grid, func(in []int64) {
		leaf := make([]int64, len(c))
		for i := range c {
			leaf[i] = c[i]*grid[i] + in[i]
		}
		chunk, there := l.chunkBytes(t, r, a, leaf)
		off, length := uint64(1<<64-1), uint64(1<<64-1)
		if there {
			off, length = uint64(head)+uint64(len(data)), uint64(len(chunk))
			data = append(data, chunk...)
			ok = true
		}
		index = binary.LittleEndian.AppendUint64(index, off)
		index = binary.LittleEndian.AppendUint64(index, length)
	})
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	if l.indexAtStart {
		return append(index, data...), ok
	}
	return append(data, index...), ok
}

// chunkBytes encodes one chunk. Beyond the edge of the array it holds garbage,
// which nobody may see.
func (l *layout) chunkBytes(t testing.TB, r *rand.Rand, a *testArray, c []int64) ([]byte, bool) {
	size := int64(l.dtype.Size())
	missing := l.missing > 0 && r.IntN(l.missing) == 0
	n, _ := nd.Product(l.chunk)
	raw := make([]byte, 0, n*size)
	stored := l.chunk
	if l.order != nil {
		stored = make([]int64, len(l.chunk))
		for i, a := range l.order {
			stored[i] = l.chunk[a]
		}
	}
	eachCoord(stored, func(in []int64) {
		at := make([]int64, len(c))
		for i := range c {
			axis := i
			if l.order != nil {
				axis = l.order[i]
			}
			at[axis] = c[axis]*l.chunk[axis] + in[i]
		}
		elem := make([]byte, size)
		if off, inside := a.offset(at); inside {
			if missing {
				copy(a.values[off:], fillBytes(l.dtype, l.fill))
			}
			copy(elem, a.values[off:off+size])
		} else {
			for i := range elem {
				elem[i] = 0xAB
			}
		}
		if l.big {
			for w := 0; w < len(elem); w += l.dtype.Word() {
				reverse(elem[w : w+l.dtype.Word()])
			}
		}
		raw = append(raw, elem...)
	})
	if missing {
		return nil, false
	}
	for _, c := range l.stages() {
		enc, err := codec.New(c.Name, c.Config)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = enc.Encode(nil, raw); err != nil {
			t.Fatal(err)
		}
	}
	return raw, true
}

// stages are the codecs behind the bytes, in the order of encoding.
func (l *layout) stages() (list []zarr.Codec) {
	for part := range strings.SplitSeq(l.codec, "+") {
		name, inner, _ := strings.Cut(part, ":")
		config := `{"level":1}`
		switch name {
		case "":
			continue
		case "blosc":
			config = fmt.Sprintf(`{"cname":%q,"clevel":5,"shuffle":"shuffle","typesize":%d,"blocksize":0}`, cmp.Or(inner, "lz4"), l.dtype.Size())
		case "lz4":
			config = `{"acceleration":1}`
		case "zstd":
			config = fmt.Sprintf(`{"level":1,"checksum":%v}`, inner == "sum")
		case "shuffle":
			config = fmt.Sprintf(`{"elementsize":%d}`, l.dtype.Size())
		case "crc32c":
			config = "{}"
		}
		list = append(list, zarr.Codec{Name: name, Config: json.RawMessage(config)})
	}
	return list
}

// smooth makes small numbers of the elements, which come in runs.
func smooth(r *rand.Rand, values []byte, size int) {
	x := byte(0)
	for i := 0; i < len(values); i += size {
		if r.IntN(3) == 0 {
			x = byte(r.IntN(7))
		}
		clear(values[i : i+size])
		values[i] = x
	}
}

func (a *testArray) offset(at []int64) (int64, bool) {
	off := int64(0)
	for i, x := range at {
		if x < 0 || x >= a.shape[i] {
			return 0, false
		}
		off = off*a.shape[i] + x
	}
	return off * int64(a.dtype.Size()), true
}

func fillBytes(d nd.DType, v int) []byte {
	elem := make([]byte, d.Size())
	if d == nd.Bool {
		elem[0] = byte(v)
		return elem
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(int32(v)))
	if d.Complex() {
		half := elem[:d.Word()]
		if d == nd.C64 {
			codec.ConvertRef(half, nd.F32, b[:], nd.I32, false, nil)
		} else {
			codec.ConvertRef(half, nd.F64, b[:], nd.I32, false, nil)
		}
		return elem
	}
	codec.ConvertRef(elem, d, b[:], nd.I32, false, nil)
	return elem
}

func counts(shape, chunk []int64) []int64 {
	n := make([]int64, len(shape))
	for i := range n {
		n[i] = (shape[i] + chunk[i] - 1) / chunk[i]
	}
	return n
}

// eachCoord calls f for every coordinate below counts, in C order.
func eachCoord(counts []int64, f func([]int64)) {
	if slices.Contains(counts, 0) {
		return
	}
	at := make([]int64, len(counts))
	for {
		f(at)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < counts[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

func key(c []int64) string {
	parts := []string{"c"}
	for _, x := range c {
		parts = append(parts, fmt.Sprint(x))
	}
	return strings.Join(parts, "/")
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}
