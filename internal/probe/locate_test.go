package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// shardOf puts chunks behind each other and an index behind them; nil is a missing one.
func shardOf(chunks ...[]byte) (out []byte) {
	var index []byte
	for _, c := range chunks {
		offset, length := uint64(len(out)), uint64(len(c))
		if c == nil {
			offset, length = math.MaxUint64, math.MaxUint64
		}
		index = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(index, offset), length)
		out = append(out, c...)
	}
	out = append(out, index...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
}

// sharding is a v3 codec list: shards of the given extents around the inner codecs.
func sharding(chunk, inner, around string) string {
	return fmt.Sprintf(`[{"name":"sharding_indexed","configuration":{"chunk_shape":%s,"codecs":%s,
		"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}]}}%s]`, chunk, inner, around)
}

func document(shape, chunk, codecs string) string {
	return fmt.Sprintf(`{"zarr_format":3,"node_type":"array","shape":%s,"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":%s}},
		"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":%s}`, shape, chunk, codecs)
}

const plain = `[{"name":"bytes"}]`

// found reads all chunks of an array that lies in a store: "-" for a missing one.
func found(t *testing.T, doc string, objects map[string][]byte) string {
	t.Helper()
	st := store.NewMemory(objects)
	a := grid(t, doc)
	l, err := newLocator(st, "", a)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for coord := range a.Chunks(nd.Whole(a.Shape)) {
		e, err := l.find(context.Background(), append([]int64{}, coord...))
		switch {
		case err != nil:
			t.Fatalf("chunk %v: %v", coord, err)
		case e == nil:
			all = append(all, "-")
			continue
		}
		p := make([]byte, e.size)
		if err := e.read(context.Background(), st, p); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(p))
	}
	return strings.Join(all, " ")
}

// Chunks are found in shards, in shards inside shards, and in shards that are compressed
// as a whole; of each the index of the last shard is kept.
func TestFind(t *testing.T) {
	pack := func(data []byte) []byte {
		c, err := codec.New("gzip", json.RawMessage(`{"level":5}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Encode(nil, data)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	b := func(s string) []byte { return []byte(s) }
	// Four chunks of 2 x 2 in each of two shards of 4 x 4.
	one, two := shardOf(b("aaaa"), nil, b("cccc"), b("dddd")), shardOf(b("eeee"), b("ffff"), b("gggg"), nil)
	const want = "aaaa - eeee ffff cccc dddd gggg -"
	shards := document("[4,8]", "[4,4]", sharding("[2,2]", plain, ""))
	if got := found(t, shards, map[string][]byte{"c/0/0": one, "c/0/1": two}); got != want {
		t.Errorf("shards: %s, want %s", got, want)
	}
	if got := found(t, shards, map[string][]byte{"c/0/1": two}); got != "- - eeee ffff - - gggg -" {
		t.Errorf("a missing shard: %s", got)
	}
	wrapped := document("[4,8]", "[4,4]", sharding("[2,2]", plain, `,{"name":"gzip","configuration":{"level":5}}`))
	if got := found(t, wrapped, map[string][]byte{"c/0/0": pack(one), "c/0/1": pack(two)}); got != want {
		t.Errorf("compressed shards: %s, want %s", got, want)
	}
	nested := document("[4,8]", "[4,8]", sharding("[4,4]", sharding("[2,2]", plain, ""), ""))
	if got := found(t, nested, map[string][]byte{"c/0/0": shardOf(one, two)}); got != want {
		t.Errorf("shards in a shard: %s, want %s", got, want)
	}
	if got := found(t, nested, map[string][]byte{"c/0/0": shardOf(one, nil)}); got != "aaaa - - - cccc dddd - -" {
		t.Errorf("a missing shard in a shard: %s", got)
	}
	both := document("[4,8]", "[4,8]", sharding("[4,4]", sharding("[2,2]", plain, ""), `,{"name":"gzip","configuration":{"level":5}}`))
	if got := found(t, both, map[string][]byte{"c/0/0": pack(shardOf(one, two))}); got != want {
		t.Errorf("shards in a compressed shard: %s, want %s", got, want)
	}
}

// A shard that is too short, or whose index lies, is corrupt and names the file.
func TestFindBroken(t *testing.T) {
	doc := document("[4,4]", "[4,4]", sharding("[2,2]", plain, ""))
	good := shardOf([]byte("aaaa"), nil, nil, nil)
	far := bytes.Clone(good)
	binary.LittleEndian.PutUint64(far[4:], 1<<40)
	binary.LittleEndian.PutUint32(far[len(far)-4:], crc32.Checksum(far[4:len(far)-4], crc32.MakeTable(crc32.Castagnoli)))
	for name, object := range map[string][]byte{"short": good[:20], "empty": {}, "far": far, "sum": append(bytes.Clone(good[:len(good)-1]), 0x55)} {
		l, err := newLocator(store.NewMemory(map[string][]byte{"c/0/0": object}), "", grid(t, doc))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.find(context.Background(), []int64{0, 0}); !errors.Is(err, nd.ErrCorrupt) || !strings.Contains(err.Error(), "c/0/0") {
			t.Errorf("%s: %v", name, err)
		}
		// It stays broken: nothing of it was kept.
		if _, err := l.find(context.Background(), []int64{0, 1}); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}
