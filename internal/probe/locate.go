package probe

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// extent is where a stored chunk lies.
type extent struct {
	coord  []int64
	key    string
	offset int64
	size   int64
	// bytes instead, of a shard that is compressed as a whole; dropped are those that
	// were not kept.
	bytes   []byte
	dropped bool
	turn    int64 // when it was drawn
	broken  bool
}

// read gives the stored bytes in memory of the caller, of e.size bytes.
func (e *extent) read(ctx context.Context, st store.Store, p []byte) error {
	if e.bytes != nil {
		copy(p, e.bytes)
		return nil
	}
	return st.ReadAt(ctx, e.key, p, e.offset)
}

// locator finds stored chunks. It keeps one index a level, that of the shard which it
// was in last: who asks in the order of shards reads each index once. One goroutine.
type locator struct {
	store   store.Store
	prefix  string // of the array's keys, "" or ending in "/"
	array   *zarr.Array
	wraps   []*codec.Chain // around the shards of a level; nil where nothing is
	scratch *codec.Scratch
	shards  []shard
}

// shard is the last one of a level.
type shard struct {
	of      extent // coord is not used
	entries []zarr.Entry
	inside  []byte // unwrapped
}

const (
	// maxIndex is the largest index that the engine reads.
	maxIndex = 64 << 20
	// maxWrapped bounds a shard that is compressed as a whole and must be held.
	maxWrapped = 256 << 20
)

func newLocator(st store.Store, path string, a *zarr.Array) (*locator, error) {
	l := &locator{store: st, array: a, scratch: codec.NewScratch(), shards: make([]shard, len(a.Levels))}
	if path != "" {
		l.prefix = path + "/"
	}
	l.wraps = make([]*codec.Chain, len(a.Levels))
	for i, level := range a.Levels[:len(a.Levels)-1] {
		if n := level.Index.Size(); n > maxIndex {
			return nil, nd.Errorf(nd.ErrUnsupported, "shards of %v chunks have an index of %d bytes, at most %d are read", level.Index.Counts, n, maxIndex)
		}
		if len(level.Bytes) == 0 {
			continue
		}
		var stages []codec.Codec
		for _, c := range slices.Backward(level.Bytes) {
			made, err := codec.New(c.Name, c.Config)
			if err != nil {
				return nil, err
			}
			stages = append(stages, made)
		}
		var err error
		if l.wraps[i], err = codec.NewChain(stages, -1); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// find gives the stored chunk at a coordinate of the leaf grid; nil if there is none.
func (l *locator) find(ctx context.Context, coord []int64) (*extent, error) {
	key := l.prefix + l.array.Key(l.array.Parent(nil, 0, coord))
	size, err := l.store.Size(ctx, key)
	if errors.Is(err, nd.ErrNotFound) {
		return nil, nil
	}
	e := &extent{key: key, size: size}
	for level := range l.array.Levels[:len(l.array.Levels)-1] {
		if err == nil && e != nil {
			e, err = l.inside(ctx, e, level, coord)
		}
	}
	if err != nil {
		return nil, nd.At(err, nd.Place{File: key})
	}
	if e != nil {
		e.coord = coord
	}
	return e, nil
}

// inside finds the chunk of the next level that holds coord.
func (l *locator) inside(ctx context.Context, of *extent, level int, coord []int64) (*extent, error) {
	s := &l.shards[level]
	if s.entries == nil || s.of.key != of.key || s.of.offset != of.offset {
		if err := l.open(ctx, s, of, level); err != nil {
			s.entries = nil
			return nil, err
		}
	}
	entry := s.entries[l.array.IndexOf(level, l.array.Parent(nil, level+1, coord))]
	if entry.Missing() {
		return nil, nil
	}
	e := &extent{key: of.key, offset: of.offset + int64(entry.Offset), size: int64(entry.Length)}
	if s.inside != nil {
		e.bytes = s.inside[entry.Offset:][:entry.Length]
	}
	return e, nil
}

// open reads the index of a shard.
func (l *locator) open(ctx context.Context, s *shard, of *extent, level int) (err error) {
	*s = shard{of: *of, entries: s.entries[:0], inside: of.bytes}
	size := of.size
	if l.wraps[level] != nil {
		if s.inside, err = l.unwrap(ctx, of, level); err != nil {
			return err
		}
		size = int64(len(s.inside))
	}
	index := l.array.Levels[level].Index
	n := min(index.Size(), size)
	at := max(0, min(index.Offset(size), size-n))
	raw := make([]byte, n)
	if s.inside != nil {
		copy(raw, s.inside[at:])
	} else if err := l.store.ReadAt(ctx, of.key, raw, of.offset+at); err != nil {
		return err
	}
	s.entries, err = index.Parse(s.entries, raw, size)
	return err
}

// unwrap decodes a shard that is compressed as a whole.
func (l *locator) unwrap(ctx context.Context, of *extent, level int) ([]byte, error) {
	if of.size > maxWrapped {
		return nil, nd.Errorf(nd.ErrBudget, "a shard of %d bytes is compressed as a whole: probe holds at most %d", of.size, maxWrapped)
	}
	packed := make([]byte, of.size)
	if err := of.read(ctx, l.store, packed); err != nil {
		return nil, err
	}
	// How long it is decoded is not known: little more than its chunks and the index.
	n, ok := nd.Product(l.array.Levels[level].Chunk)
	if !ok || n > math.MaxInt32 {
		n = math.MaxInt32
	}
	room := min(2*n*int64(l.array.DType.Size())+2*l.array.Levels[level].Index.Size()+1<<20, 2*maxWrapped)
	return l.wraps[level].Decode(make([]byte, room), packed, l.scratch)
}
