package storetest

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/store"
)

// Latency is a store whose calls take a while.
type Latency struct {
	store.Store

	// Delay is the time that a call takes before it starts.
	Delay func(op Op, key string, off int64, n int) time.Duration

	// Sleep waits, or does not: a test may only note the time. nil waits by a
	// timer, which in a testing/synctest bubble takes no time.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Jitter is a Delay in [0, limit) that depends on the seed and the range alone,
// so that a run shuffles the order of completions in the same way every time.
func Jitter(seed uint64, limit time.Duration) func(Op, string, int64, int) time.Duration {
	return func(op Op, key string, off int64, _ int) time.Duration {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key)) // never fails
		r := rand.New(rand.NewPCG(seed, h.Sum64()^uint64(off)<<2^uint64(op)))
		return time.Duration(r.Int64N(max(1, int64(limit))))
	}
}

// ReadAt implements store.Store.
func (l *Latency) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	if err := l.wait(ctx, OpRead, key, off, len(p)); err != nil {
		return err
	}
	return l.Store.ReadAt(ctx, key, p, off)
}

// Size implements store.Store.
func (l *Latency) Size(ctx context.Context, key string) (int64, error) {
	if err := l.wait(ctx, OpSize, key, 0, 0); err != nil {
		return 0, err
	}
	return l.Store.Size(ctx, key)
}

// List implements store.Store.
func (l *Latency) List(ctx context.Context, prefix string) ([]string, error) {
	if err := l.wait(ctx, OpList, prefix, 0, 0); err != nil {
		return nil, err
	}
	return l.Store.List(ctx, prefix)
}

func (l *Latency) wait(ctx context.Context, op Op, key string, off int64, n int) error {
	sleep := l.Sleep
	if sleep == nil {
		sleep = timer
	}
	return sleep(ctx, l.Delay(op, key, off, n))
}

func timer(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
