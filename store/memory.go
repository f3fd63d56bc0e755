package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// Memory is a store whose objects lie in memory, for tests and for small data
// that a program made itself.
type Memory struct {
	objects map[string][]byte
	closed  atomic.Bool
}

// NewMemory makes a store of the given objects. The map is copied, the bytes are
// shared: they must not change while the store is read.
func NewMemory(objects map[string][]byte) *Memory {
	return &Memory{objects: maps.Clone(objects)}
}

// ReadAt implements Store.
func (m *Memory) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	object, err := m.object(ctx, key)
	if err != nil {
		return err
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		err := nd.Errorf(nd.ErrCorrupt, "impossible range: %d bytes at %d", len(p), off)
		return nd.At(err, nd.Place{File: key})
	}
	if len(p) > 0 && off+int64(len(p)) > int64(len(object)) {
		return endsAt(key, int64(len(object)), off, len(p))
	}
	if len(p) > 0 {
		copy(p, object[off:])
	}
	return nil
}

// Size implements Store.
func (m *Memory) Size(ctx context.Context, key string) (int64, error) {
	object, err := m.object(ctx, key)
	return int64(len(object)), err
}

// List implements Store.
func (m *Memory) List(ctx context.Context, prefix string) ([]string, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	prefix, err := checkPrefix(prefix)
	if err != nil {
		return nil, err
	}
	folder := prefix
	if folder != "" {
		folder += "/"
	}
	found := make(map[string]bool)
	for key := range m.objects {
		rest, ok := strings.CutPrefix(key, folder)
		if !ok {
			continue
		}
		if name, _, below := strings.Cut(rest, "/"); below {
			rest = name + "/"
		}
		found[rest] = true
	}
	if len(found) == 0 && prefix != "" {
		return nil, nd.At(nd.Errorf(nd.ErrNotFound, "no such folder"), nd.Place{File: prefix})
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// String is "memory:".
func (m *Memory) String() string { return "memory:" }

// Close implements Store.
func (m *Memory) Close() error {
	m.closed.Store(true)
	return nil
}

func (m *Memory) usable(ctx context.Context) error {
	if m.closed.Load() {
		return nd.Errorf(nd.ErrClosed, "store memory:")
	}
	return ctx.Err()
}

func (m *Memory) object(ctx context.Context, key string) ([]byte, error) {
	place := nd.Place{File: key}
	if err := m.usable(ctx); err != nil {
		return nil, nd.At(err, place)
	}
	if err := CheckKey(key); err != nil {
		return nil, nd.At(err, place)
	}
	object, ok := m.objects[key]
	if !ok {
		return nil, nd.At(nd.Errorf(nd.ErrNotFound, "no such object"), place)
	}
	return object, nil
}
