package order_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/sampler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Any number of workers comes to what one walk comes to, and the report ends at
// the total.
func TestVerifyIsTheDigest(t *testing.T) {
	for _, n := range []int64{0, 1, 1000, 1<<18 - 1, 1 << 18, 1<<18 + 1, 1_000_003} {
		e := sampler.Stream{N: n, Global: 7, Tail: sampler.TailDrop, Shuffle: true}.Epoch(3)
		want := e.Digest(e.Delivered())
		for _, workers := range []int{0, 1, 3} {
			var last int64
			got, err := order.Verify(t.Context(), e, workers, func(done, total int64) {
				if done < last || total != want.Count {
					t.Errorf("%d of %d after %d", done, total, last)
				}
				last = done
			})
			if err != nil || got != want || last != want.Count {
				t.Errorf("n %d, %d workers: %v %v, want %v; reported %d", n, workers, got, err, want, last)
			}
		}
	}
}

// An epoch that takes days ends when it is told to.
func TestVerifyStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := sampler.Stream{N: 1 << 62, Global: 1, Shuffle: true}.Epoch(0)
	_, err := order.Verify(ctx, e, 2, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
