// Package order recomputes what a run reports of an epoch.
package order

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// part is the positions that a worker takes at a time: tens of milliseconds, so
// that progress is smooth and Ctrl-C is quick.
const part = 1 << 18

// Verify is the digest that an epoch must have, computed by several workers.
// report, if it is not nil, hears of the positions done, from the caller's
// goroutine. All workers have ended when it returns.
func Verify(ctx context.Context, e *sampler.Epoch, workers int, report func(done, total int64)) (sampler.Digest, error) {
	total := e.Delivered().Stop
	var next atomic.Int64 // first position that no worker has taken
	parts := make(chan sampler.Digest)
	var running sync.WaitGroup
	for range max(1, workers) {
		running.Go(func() {
			for ctx.Err() == nil {
				start := next.Add(part) - part
				if start >= total || start < 0 { // it wraps near the largest n
					return
				}
				parts <- e.Digest(nd.Span{Start: start, Stop: start + min(part, total-start)})
			}
		})
	}
	go func() {
		running.Wait()
		close(parts)
	}()
	var sum sampler.Digest
	for d := range parts {
		sum = sum.Merge(d)
		if report != nil {
			report(sum.Count, total)
		}
	}
	return sum, ctx.Err()
}
