package store

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

const (
	// BlockBytes is the memory through which one direct read goes at a time; longer
	// ones take several. A larger request is no faster on a local disk.
	BlockBytes = 1 << 20
	// maxBlocks bounds the blocks of a set of files, and so the direct reads at once:
	// the queue depth at which fast disks no longer gain, with room to spare.
	maxBlocks = 128
)

// block is aligned memory that the kernel reads into.
//
// The memory is a mapping of its own and not of the Go heap, for three reasons.
// It begins at a page, as O_DIRECT wants. The kernel writes to it while nobody on
// the Go side may hold a pointer (a submission keeps the address as a number):
// what the collector does not own it can neither free nor, should it ever do so,
// move. And a caller's stack, which does move, is never handed out. A block is in
// the hands of one reader, and of the ring while its request runs; it is unmapped
// only by put and close, when neither has it.
type block struct {
	id   int // below the pool's limit
	mem  []byte
	lost bool // the kernel may still write to it: never used again, never unmapped
	request
}

// blocks is a bounded pool, filled as far as it was ever needed.
type blocks struct {
	free   chan *block
	room   chan struct{} // one for each block that may still be mapped
	ended  chan struct{}
	made   atomic.Int64
	mapped atomic.Int64 // now

	mu     sync.Mutex // orders put and close
	closed bool
}

func newBlocks(limit int) *blocks {
	p := &blocks{free: make(chan *block, limit), room: make(chan struct{}, limit), ended: make(chan struct{})}
	for range limit {
		p.room <- struct{}{}
	}
	return p
}

// take gives a block, and waits for one where all are in use.
func (p *blocks) take(ctx context.Context) (*block, error) {
	select {
	case b := <-p.free:
		return b, nil
	default:
	}
	select {
	case b := <-p.free:
		return b, nil
	case <-p.room:
		return p.more()
	case <-p.ended:
		return nil, nd.Errorf(nd.ErrClosed, "the set of open files")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *blocks) more() (*block, error) {
	mem, err := mapBlock()
	if err != nil {
		p.room <- struct{}{}
		return nil, nd.Errorf(nd.ErrIO, "no memory for a direct read: %w", err)
	}
	p.mapped.Add(1)
	return &block{id: int(p.made.Add(1)) - 1, mem: mem, request: newRequest()}, nil
}

// put gives a block back; after close it is the end of it.
func (p *blocks) put(b *block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case b.lost:
	case p.closed:
		p.unmap(b)
	default:
		p.free <- b
	}
}

func (p *blocks) unmap(b *block) {
	_ = unmapBlock(b.mem) // it was mapped by mapBlock
	b.mem = nil
	p.mapped.Add(-1)
}

// close unmaps what nobody uses; put unmaps the rest. Who waits wakes up.
func (p *blocks) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	close(p.ended)
	for len(p.free) > 0 {
		p.unmap(<-p.free)
	}
}
