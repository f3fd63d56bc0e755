package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// shardCube is the cube in shards of 8x8, so that its chunks share files and
// reads are coalesced.
func shardCube(t testing.TB) *cube {
	c := newCube(t)
	l := layout{shape: []int64{16, 16}, chunk: []int64{4, 4}, shard: []int64{8, 8}, dtype: nd.U16, codec: "zstd"}
	c.array = makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	c.cfg.Arrays[0].Store = c.array.stored("cube")
	return c
}

// The same samples give the same bytes in the same order whatever the number of
// readers, workers and slots, the look-ahead, the caches, the reuse and the
// latency of the store.
func TestConfigDoesNotChangeBytes(t *testing.T) {
	c := shardCube(t)
	r := rand.New(rand.NewPCG(5, 5))
	var samples []sampler.Sample
	for i := range 60 {
		samples = append(samples, at(int64(i), r.Int64N(13), r.Int64N(13)))
	}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		cfg := c.cfg
		cfg.BatchSize = 1 + r.IntN(7)
		randomBudget(r, &cfg)
		cfg.Arrays = []ArrayRef{{URI: "cube", Store: &storetest.Latency{
			Store: c.array.stored("cube"), Delay: storetest.Jitter(seed, 200*time.Microsecond),
		}}}
		compare(t, mustOpen(t, cfg), &cfg, []*testArray{c.array}, samples)
	}
}

// wholeCfg is the config of the cube over another store, leaving bad samples out.
func wholeCfg(st store.Store) Config {
	return Config{
		Arrays: []ArrayRef{{URI: "cube", Store: st}}, BatchSize: 4, OnError: Skip,
		Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.U16}},
	}
}

// failing runs one sample in each chunk and returns the errors by chunk.
func failing(t *testing.T, c *cube, st store.Store) map[int64]error {
	t.Helper()
	p := mustOpen(t, wholeCfg(st))
	push(t, p, grid(16)...)
	p.Finish()
	errs := map[int64]error{}
	for range 4 {
		b := next(t, p)
		c.check(t, b)
		for _, err := range b.Errs() {
			var se *SampleError
			if !errors.As(err, &se) {
				t.Fatalf("%T is not a *SampleError", err)
			}
			errs[se.ID] = err
		}
		release(t, b)
	}
	return errs
}

// broken returns a store in which one file was changed.
func (c *cube) broken(file string, change func([]byte) []byte) store.Store {
	a := testArray{files: maps.Clone(c.array.files)}
	a.files[file] = change(bytes.Clone(a.files[file]))
	return a.stored("cube")
}

// indexOf is the table at the end of a shard of 2x2 chunks.
const indexTail = 4*16 + 4

// seal writes the checksum of a changed index.
func seal(shard []byte) []byte {
	table := shard[len(shard)-indexTail : len(shard)-4]
	binary.LittleEndian.PutUint32(shard[len(shard)-4:], crc32.Checksum(table, crc32.MakeTable(crc32.Castagnoli)))
	return shard
}

// Every way in which a shard can be bad is one typed error with its place, and
// hurts exactly the samples that need the bad part.
func TestBadShards(t *testing.T) {
	c := shardCube(t)
	all := []int64{0, 1, 4, 5} // ids of the samples in shard 0/0; id = 4*x + y
	entry := func(b []byte, i int) []byte { return b[len(b)-indexTail+16*i:] }
	cases := []struct {
		name, want string
		kind       error
		ids        []int64
		change     func([]byte) []byte
	}{
		{"index checksum", "checksum", nd.ErrCorrupt, all, func(b []byte) []byte { b[len(b)-9]++; return b }},
		{"shorter than its index", "index", nd.ErrCorrupt, all, func(b []byte) []byte { return b[:indexTail-1] }},
		{"empty file", "index", nd.ErrCorrupt, all, func([]byte) []byte { return nil }},
		{"half a sentinel", "", nd.ErrCorrupt, all, func(b []byte) []byte {
			binary.LittleEndian.PutUint64(entry(b, 0), 1<<64-1)
			return seal(b)
		}},
		{"range past the end", "", nd.ErrCorrupt, all, func(b []byte) []byte {
			binary.LittleEndian.PutUint64(entry(b, 3)[8:], 1<<40)
			return seal(b)
		}},
		{"bad frame", "chunk 0/1", nd.ErrCorrupt, []int64{4}, func(b []byte) []byte {
			off := binary.LittleEndian.Uint64(entry(b, 1))
			b[off]++
			return b
		}},
		{"frame cut short", "chunk 0/1", nd.ErrCorrupt, []int64{4}, func(b []byte) []byte {
			n := binary.LittleEndian.Uint64(entry(b, 1)[8:])
			binary.LittleEndian.PutUint64(entry(b, 1)[8:], n-1)
			return seal(b)
		}},
		{"frame of another chunk size", "chunk 1/1", nd.ErrCorrupt, []int64{5}, func(b []byte) []byte {
			// A zstd frame of one raw block: two bytes, where 32 are expected.
			frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 2, 0x11, 0, 0, 7, 7}
			off := binary.LittleEndian.Uint64(entry(b, 3))
			copy(b[off:], frame)
			binary.LittleEndian.PutUint64(entry(b, 3)[8:], uint64(len(frame)))
			return seal(b)
		}},
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			errs := failing(t, c, c.broken("c/0/0", x.change))
			if len(errs) != len(x.ids) {
				t.Fatalf("failed: %v", errs)
			}
			for _, id := range x.ids {
				err := errs[id]
				if !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "c/0/0") {
					t.Errorf("sample %d: %v", id, err)
				}
			}
		})
	}
}

// A read that fails, or is refused, is nd.ErrIO for the samples that need it;
// only a definite "not found" is a missing chunk.
func TestStoreFaults(t *testing.T) {
	c := newCube(t)
	refused := errors.New("permission denied")
	errs := failing(t, c, storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/2/1", Op: storetest.OpRead, Kind: storetest.Fail, Err: refused}))
	if len(errs) != 1 || !errors.Is(errs[6], nd.ErrIO) || !errors.Is(errs[6], refused) || !strings.Contains(errs[6].Error(), "c/2/1") {
		t.Fatalf("a failed read: %v", errs)
	}
	errs = failing(t, c, storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/2/1", Op: storetest.OpSize, Kind: storetest.Fail, Err: refused}))
	if len(errs) != 1 || !errors.Is(errs[6], nd.ErrIO) {
		t.Fatalf("a refused size: %v", errs)
	}
	// The object that is not there is fill, so the check of failing would compare
	// it with the stored values: make those the fill value.
	p := mustOpen(t, wholeCfg(storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/2/1", Op: storetest.OpSize, Kind: storetest.Missing})))
	push(t, p, at(0, 8, 4))
	p.Finish()
	b := next(t, p)
	for _, v := range bytesOf(t, b, 0) {
		if v != 0 {
			t.Fatal("a missing chunk is not the fill value")
		}
	}
	release(t, b)
	if s := p.Stats(); s.ChunksMissing != 1 {
		t.Fatalf("%d chunks counted as missing", s.ChunksMissing)
	}
}

// An index that could not be read is asked for again by the next sample: an I/O
// error does not stick.
func TestFailedIndexIsTriedAgain(t *testing.T) {
	c := shardCube(t)
	st := storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/0/0", Op: storetest.OpRead, Count: 1, Kind: storetest.Fail, Err: errors.New("flaky")})
	p := mustOpen(t, wholeCfg(st))
	for round, want := range []int{1, 0} {
		push(t, p, at(0, 0, 0))
		p.Finish()
		b := next(t, p)
		if len(b.Errs()) != want {
			t.Fatalf("round %d: errors %v", round, b.Errs())
		}
		c.check(t, b)
		release(t, b)
		wantEOF(t, p)
	}
}

// One bad chunk in a coalesced read fails alone, even where the read as a whole
// fails: the store lost the end of the file after its index was read.
func TestCoalescedReadFailsChunkByChunk(t *testing.T) {
	c := shardCube(t)
	shard := c.array.files["c/0/0"]
	last := binary.LittleEndian.Uint64(shard[len(shard)-indexTail+48:])
	st := storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/0/0", Op: storetest.OpRead, From: 2, Kind: storetest.Short, At: int64(last) + 1})
	errs := failing(t, c, st)
	if len(errs) != 1 || !errors.Is(errs[5], nd.ErrCorrupt) {
		t.Fatalf("failed: %v", errs)
	}
}

// Close does not wait for a store that hangs until its context ends.
func TestCloseDuringBlockedReads(t *testing.T) {
	c := shardCube(t)
	st := storetest.NewFault(c.array.stored("cube"), storetest.Rule{Key: "cube/c/...", Op: storetest.OpRead, Kind: storetest.Block})
	p, err := Open(context.Background(), onDevice(t, wholeCfg(st)))
	if err != nil {
		t.Fatal(err)
	}
	push(t, p, grid(16)...)
	waitFor(t, func() bool { return st.Hits() > 0 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// After a warm-up nothing is allocated for a chunk: what is left is a handful of
// objects for each sample and each batch, however many chunks it has.
func TestNoAllocationPerChunk(t *testing.T) {
	l := layout{shape: []int64{128, 128}, chunk: []int64{4, 4}, shard: []int64{128, 128}, dtype: nd.U8, codec: "zstd"}
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	p := mustOpen(t, Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 1, Reuse: ReuseNone, Workers: 1, Readers: 1,
		Fields: []Field{{Name: "x", Shape: []int{128, 128}, DType: nd.F32}},
	})
	whole := sampler.Sample{Crops: []sampler.Crop{{Box: nd.Whole(l.shape)}}}
	run := func(n int) {
		for range n {
			push(t, p, whole)
			release(t, next(t, p))
		}
	}
	run(20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 20
	run(rounds)
	runtime.ReadMemStats(&after)
	perSample := float64(after.Mallocs-before.Mallocs) / rounds
	if perSample > 60 {
		t.Fatalf("%.0f allocations for a sample of 1024 chunks", perSample)
	}
	t.Logf("%.1f allocations a sample", perSample)
}

// The slot of a batch that fails goes to the next one at once, though nobody pushes
// or takes anything.
func TestSlotOfFailedBatchIsUsedAgain(t *testing.T) {
	for _, policy := range []Policy{Raise, Skip} {
		c := newCube(t)
		rule := storetest.Rule{Op: storetest.OpRead, Key: "cube/c/...", Count: 1}
		cfg := wholeCfg(storetest.NewFault(c.array.stored("cube"), rule))
		cfg.OnError, cfg.BatchSize, cfg.Lookahead, cfg.Slots = policy, 1, 2, 1
		p := mustOpen(t, cfg)
		push(t, p, grid(2)...)
		if b, err := p.Next(context.Background()); policy == Raise && !errors.Is(err, nd.ErrIO) || policy == Skip && len(b.Errs()) != 1 {
			t.Fatalf("%v: %v", policy, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		b, err := p.Next(ctx)
		if err != nil {
			t.Fatalf("%v: %v", policy, err)
		}
		wantIDs(t, b, 1)
		release(t, b)
	}
}

// A store that is gone is not a store without chunks: once the array's metadata
// cannot be found either, a missing chunk is nd.ErrIO and never fill.
func TestVanishedStoreIsNoFill(t *testing.T) {
	c := newCube(t)
	st := storetest.NewFault(c.array.stored("cube"),
		storetest.Rule{Key: "cube/zarr.json", Op: storetest.OpSize, From: 3, Kind: storetest.Missing},
		storetest.Rule{Key: "cube/c/...", Op: storetest.OpSize, Kind: storetest.Missing})
	errs := failing(t, c, st)
	if len(errs) != 16 || !errors.Is(errs[3], nd.ErrIO) || !strings.Contains(errs[3].Error(), "unmounted") {
		t.Fatalf("%d samples failed: %v", len(errs), errs[3])
	}
}

// Plans are bounded by their size, not only by the number of samples, and
// everything still comes out in order.
func TestLargePlansAreTakenInTurn(t *testing.T) {
	l := layout{shape: []int64{512, 512}, chunk: []int64{1, 1}, shard: []int64{512, 512}, dtype: nd.U8}
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	cfg := Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 1, Lookahead: 8,
		Fields: []Field{{Name: "x", Shape: []int{400, 400}, DType: nd.U8}},
	}
	p := mustOpen(t, cfg)
	var samples []sampler.Sample
	for i := range int64(8) {
		samples = append(samples, sampler.Sample{ID: i, Crops: []sampler.Crop{{Box: nd.Box{{Start: i, Stop: i + 400}, {Start: 2 * i, Stop: 2*i + 400}}}}})
	}
	compare(t, p, &cfg, []*testArray{a}, samples)
	checkIdle(t, p)
}

// A shard that is rewritten after its index was read gives nd.ErrIO for what was
// planned with the old index, never other bytes; the next samples see the new one.
func TestRewrittenShard(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := layout{shape: []int64{8, 8}, chunk: []int64{4, 4}, shard: []int64{8, 8}, dtype: nd.U16}
	dir := t.TempDir()
	write := func(a *testArray) {
		for name, data := range a.files {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		later := time.Now().Add(time.Second)
		if err := os.Chtimes(filepath.Join(dir, "c/0/0"), later, later); err != nil {
			t.Fatal(err)
		}
	}
	c := newCube(t)
	c.array = makeArray(t, r, l)
	write(c.array)
	cfg := wholeCfg(nil)
	cfg.Arrays = []ArrayRef{{URI: dir}}
	p := mustOpen(t, cfg)
	round := func(wantFailed int) {
		t.Helper()
		push(t, p, at(0, 0, 0), at(1, 4, 0), at(2, 0, 4), at(3, 4, 4))
		b := next(t, p)
		if len(b.Errs()) != wantFailed {
			t.Fatalf("%d samples failed, want %d: %v", len(b.Errs()), wantFailed, b.Errs())
		}
		for _, err := range b.Errs() {
			if !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "replaced") {
				t.Fatal(err)
			}
		}
		c.check(t, b)
		release(t, b)
	}
	round(0)
	l.missing = 2 // the same array with other chunks missing: another index
	c.array = makeArray(t, r, l)
	for len(c.array.files) < 2 {
		c.array = makeArray(t, r, l)
	}
	write(c.array)
	round(4)
	round(0)
}
