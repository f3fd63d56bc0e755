// Package plainread reads boxes of zarr arrays in the plainest way: one chunk
// after the other, one element after the other. It is what benchmarks and tests
// hold the engine against, so it shares no code with package pipeline and has no
// cleverness of its own beyond a small cache.
package plainread

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// Reader reads one array. One goroutine at a time.
type Reader struct {
	store   store.Store
	prefix  string // of the array's keys
	array   *zarr.Array
	chain   *codec.Chain
	wraps   []*codec.Chain // of each level, nil where nothing wraps its shards
	big     bool
	scratch *codec.Scratch

	chunks map[string][]byte // decoded; nil for a missing one
	bytes  int64             // of chunks
	limit  int64             // of bytes
	tables map[string][]byte // indexes of stored shards
	one    map[[2]nd.DType]convert
}

// tableCount bounds the indexes that are kept. When a cache is full it is emptied,
// which is plain and good enough.
const tableCount = 1024

// New makes a reader of the array whose keys begin with prefix ("" or ending in
// "/"). It keeps decoded chunks of at most so many bytes.
func New(st store.Store, prefix string, a *zarr.Array, keep int64) (*Reader, error) {
	r := &Reader{
		store: st, prefix: prefix, array: a, scratch: codec.NewScratch(), limit: keep,
		chunks: map[string][]byte{}, tables: map[string][]byte{}, one: map[[2]nd.DType]convert{},
	}
	leaf := a.Leaf()
	r.big = leaf.Big
	if a.Format == 2 {
		r.big = a.DType.Big
	}
	var stages []codec.Codec
	if err := appendStages(&stages, leaf.Bytes); err != nil {
		return nil, err
	}
	if a.Format == 3 && r.big && len(leaf.Filters) > 0 {
		stages = append(stages, codec.Swap(a.DType.Word()))
		r.big = false
	}
	if err := appendStages(&stages, leaf.Filters); err != nil {
		return nil, err
	}
	var err error
	if r.chain, err = codec.NewChain(stages, int(a.ChunkBytes())); err != nil {
		return nil, err
	}
	return r, r.wrap()
}

// appendStages appends codecs in the order of decoding.
func appendStages(stages *[]codec.Codec, codecs []zarr.Codec) error {
	for _, c := range slices.Backward(codecs) {
		stage, err := codec.New(c.Name, c.Config)
		if err != nil {
			return err
		}
		*stages = append(*stages, stage)
	}
	return nil
}

func (r *Reader) wrap() error {
	r.wraps = make([]*codec.Chain, len(r.array.Levels))
	for i, level := range r.array.Levels[:len(r.array.Levels)-1] {
		if len(level.Bytes) == 0 {
			continue
		}
		var stages []codec.Codec
		if err := appendStages(&stages, level.Bytes); err != nil {
			return err
		}
		var err error
		if r.wraps[i], err = codec.NewChain(stages, -1); err != nil {
			return err
		}
	}
	return nil
}

// Chain decodes what Encoded gives.
func (r *Reader) Chain() *codec.Chain { return r.chain }

// Encoded is the stored form of the leaf chunk at coord; nil if it is missing.
func (r *Reader) Encoded(ctx context.Context, coord []int64) ([]byte, error) {
	a := r.array
	key := r.prefix + a.Key(a.Parent(nil, 0, coord))
	part, err := r.object(ctx, key)
	for level := range a.Levels[:len(a.Levels)-1] {
		if err != nil || part == nil {
			break
		}
		part, err = r.inside(part, level, coord)
	}
	if err != nil || part == nil {
		return nil, err
	}
	data := make([]byte, part.size)
	return data, part.read(data, 0)
}

// extent is a run of bytes somewhere.
type extent struct {
	name string
	size int64
	read func(p []byte, off int64) error
}

func memory(name string, data []byte) *extent {
	return &extent{name, int64(len(data)), func(p []byte, off int64) error {
		copy(p, data[off:])
		return nil
	}}
}

// object is a stored object, nil if there is none.
func (r *Reader) object(ctx context.Context, key string) (*extent, error) {
	size, err := r.store.Size(ctx, key)
	if errors.Is(err, nd.ErrNotFound) {
		return nil, nil
	}
	read := func(p []byte, off int64) error { return r.store.ReadAt(ctx, key, p, off) }
	return &extent{key, size, read}, err
}

// inside finds the chunk of the next level that holds coord in a shard.
func (r *Reader) inside(shard *extent, level int, coord []int64) (*extent, error) {
	if r.wraps[level] != nil {
		var err error
		if shard, err = r.unwrapped(shard, level); err != nil {
			return nil, err
		}
	}
	next := r.array.Parent(nil, level+1, coord)
	offset, length, err := r.entry(shard, level, r.array.IndexOf(level, next))
	switch {
	case err != nil:
		return nil, err
	case offset == math.MaxUint64 && length == math.MaxUint64:
		return nil, nil
	case offset > uint64(shard.size) || length > uint64(shard.size)-offset:
		return nil, nd.Errorf(nd.ErrCorrupt, "%s: chunk at %d+%d of %d bytes", shard.name, offset, length, shard.size)
	}
	read := func(p []byte, off int64) error { return shard.read(p, int64(offset)+off) }
	return &extent{fmt.Sprintf("%s+%d", shard.name, offset), int64(length), read}, nil
}

func (r *Reader) unwrapped(shard *extent, level int) (*extent, error) {
	packed := make([]byte, shard.size)
	if err := shard.read(packed, 0); err != nil {
		return nil, err
	}
	// The decoded size is not known; a shard holds little more than its chunks.
	n, _ := nd.Product(r.array.Levels[level].Chunk)
	room := 2*n*int64(r.array.DType.Size()) + 32*r.array.Levels[level].Index.Size() + 1<<20
	data, err := r.wraps[level].Decode(make([]byte, room), packed, r.scratch)
	return memory(shard.name, data), err
}

// entry is entry i of a shard's index.
func (r *Reader) entry(shard *extent, level int, i int64) (offset, length uint64, err error) {
	ix := r.array.Levels[level].Index
	raw, ok := r.tables[shard.name]
	if !ok {
		raw = make([]byte, min(ix.Size(), shard.size))
		at := int64(0)
		if !ix.AtStart {
			at = shard.size - int64(len(raw))
		}
		if err := shard.read(raw, at); err != nil {
			return 0, 0, err
		}
		if len(r.tables) >= tableCount {
			clear(r.tables)
		}
		r.tables[shard.name] = raw
	}
	if ix.Order != nil || int64(len(raw)) < ix.Size() {
		entries, err := ix.Parse(nil, raw, shard.size)
		if err != nil {
			return 0, 0, err
		}
		return entries[i].Offset, entries[i].Length, nil
	}
	pair := raw[16*i : 16*i+16]
	if ix.Big {
		return binary.BigEndian.Uint64(pair), binary.BigEndian.Uint64(pair[8:]), nil
	}
	return binary.LittleEndian.Uint64(pair), binary.LittleEndian.Uint64(pair[8:]), nil
}

// chunk is the decoded leaf chunk at coord; nil if it is missing.
func (r *Reader) chunk(ctx context.Context, coord []int64) ([]byte, error) {
	name := fmt.Sprint(coord)
	if data, ok := r.chunks[name]; ok {
		return data, nil
	}
	encoded, err := r.Encoded(ctx, coord)
	if err != nil {
		return nil, fmt.Errorf("chunk %v: %w", coord, err)
	}
	var data []byte
	if encoded != nil {
		data, err = r.chain.Decode(make([]byte, r.array.ChunkBytes()), encoded, r.scratch)
		if err != nil {
			return nil, fmt.Errorf("chunk %v: %w", coord, err)
		}
	}
	if r.bytes += int64(len(data)); r.bytes > r.limit {
		clear(r.chunks)
		r.bytes = int64(len(data))
	}
	r.chunks[name] = data
	return data, nil
}
