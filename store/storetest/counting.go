package storetest

import (
	"context"
	"slices"
	"sync"

	"github.com/headrace/headrace/store"
)

// Call is one call of a store as Counting saw it.
type Call struct {
	Op  Op
	Key string
	Off int64
	N   int
	Err error
}

// Counting is a store that keeps every call.
type Counting struct {
	store.Store
	mu    sync.Mutex
	calls []Call
}

// NewCounting wraps a store.
func NewCounting(inner store.Store) *Counting { return &Counting{Store: inner} }

// ReadAt implements store.Store.
func (c *Counting) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	err := c.Store.ReadAt(ctx, key, p, off)
	c.note(Call{OpRead, key, off, len(p), err})
	return err
}

// Size implements store.Store.
func (c *Counting) Size(ctx context.Context, key string) (int64, error) {
	n, err := c.Store.Size(ctx, key)
	c.note(Call{Op: OpSize, Key: key, Err: err})
	return n, err
}

// List implements store.Store.
func (c *Counting) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := c.Store.List(ctx, prefix)
	c.note(Call{Op: OpList, Key: prefix, Err: err})
	return names, err
}

// Calls are all calls so far, in the order in which they ended.
func (c *Counting) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Reads is the number of reads of a key, or of all keys if it is empty, and the
// bytes that they asked for.
func (c *Counting) Reads(key string) (n int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		if call.Op == OpRead && (key == "" || key == call.Key) {
			n++
			bytes += int64(call.N)
		}
	}
	return n, bytes
}

// Reset forgets all calls.
func (c *Counting) Reset() {
	c.mu.Lock()
	c.calls = nil
	c.mu.Unlock()
}

func (c *Counting) note(call Call) {
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
}
