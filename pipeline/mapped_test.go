package pipeline

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// A shard whose index gives a chunk more bytes than a stage has room for: they must
// not be copied over what lies behind the stage's room.
func TestMappedChunkLargerThanTheStage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{8, 8}, shard: []int64{32, 32}, dtype: nd.U16, codec: "lz4"})
	data := a.files["c/0/0"]
	index := append([]byte(nil), data[len(data)-260:]...)
	body := append(append([]byte(nil), data[:len(data)-260]...), make([]byte, 36<<20)...)
	binary.LittleEndian.PutUint64(index[0:], uint64(len(data)))
	binary.LittleEndian.PutUint64(index[8:], 34<<20)
	a.files["c/0/0"] = sealTable(append(body, index...))
	root := a.onDisk(t)
	cfg := Config{
		Arrays: []ArrayRef{{URI: root}}, BatchSize: 4, Reuse: ReuseNone, Reader: "mapped", MappedBytes: 4 * mapWindow, OnError: Skip,
		Fields: []Field{{Name: "x", Shape: []int{16, 16}, DType: nd.U16}},
	}
	onFake(t, &cfg)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came before
	d := p.backend.(*device)
	t.Logf("room for %d stored bytes, ring of %d", d.stages[0].room.encoded, len(p.slabs))
	for range 40 {
		p.corners(t, a, func(error) {})
		for i, s := range d.stages {
			for _, piece := range s.pieces {
				if piece.Dst >= s.in && piece.Dst < s.out && piece.Dst+cuda.Ptr(piece.N) > s.out {
					t.Fatalf("stage %d: a piece of %d bytes at %d of the %d of its room", i, piece.N, piece.Dst-s.in, s.out-s.in)
				}
			}
		}
	}
}

// Windows that find no room are looked for once a wave, remembered up to a bound, and
// hold no index.
func TestMappingsAreBounded(t *testing.T) {
	array := &boundArray{store: store.NewFile(t.TempDir(), store.Options{})}
	m := &mappings{
		limit: mapWindow, used: mapWindow, list: map[mappingKey]*mapping{}, retired: map[*mapping]int64{}, bound: mappingsLeast,
		request: func(*mapping) { t.Error("a window was asked for") }, counts: &counters{},
	}
	for i := range int64(3 * mappingsLeast) {
		m.find(&object{array: array, root: i}, 0, 1, i)
	}
	if n := len(m.list); n > mappingsLeast {
		t.Errorf("%d windows are remembered", n)
	}
	for key, g := range m.list {
		if g.object != nil {
			t.Fatalf("window %+v keeps an index", key)
		}
	}
	before := len(m.list)
	for i := range int64(10) { // a wave that found no room asks for no other window
		m.find(&object{array: array, root: -1 - i}, 0, 1, 3*mappingsLeast-1)
	}
	if n := len(m.list); n != before {
		t.Errorf("%d windows more after the search of the wave was in vain", n-before)
	}
}

// sealTable is seal for an index of 16 chunks.
func sealTable(shard []byte) []byte {
	table := shard[len(shard)-260 : len(shard)-4]
	binary.LittleEndian.PutUint32(shard[len(shard)-4:], crc32.Checksum(table, crc32.MakeTable(crc32.Castagnoli)))
	return shard
}
