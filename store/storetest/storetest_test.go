package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory() store.Store {
	return store.NewMemory(map[string][]byte{"c/0/0": []byte("abcdef"), "c/1": []byte("x")})
}

// The wrappers let everything through that no rule hits.
func TestWrappersConform(t *testing.T) {
	inner := store.NewMemory(storetest.Objects())
	noDelay := func(storetest.Op, string, int64, int) time.Duration { return 0 }
	storetest.Conform(t, storetest.NewFault(storetest.NewCounting(&storetest.Latency{Store: inner, Delay: noDelay})))
}

func TestFaultHitsTheNamedCalls(t *testing.T) {
	st := storetest.NewFault(memory(), storetest.Rule{Key: "c/0/...", From: 2, Count: 2})
	var failed []int
	for i := range 5 {
		if err := st.ReadAt(t.Context(), "c/1", make([]byte, 1), 0); err != nil {
			t.Errorf("another key: %v", err)
		}
		if err := st.ReadAt(t.Context(), "c/0/0", make([]byte, 1), 0); errors.Is(err, nd.ErrIO) {
			failed = append(failed, i)
		}
	}
	if !slices.Equal(failed, []int{1, 2}) || st.Hits() != 2 {
		t.Errorf("failed calls %v, %d hits, want the second and the third", failed, st.Hits())
	}
}

func TestFaultKinds(t *testing.T) {
	read := func(rule storetest.Rule, off int64, n int) ([]byte, error) {
		p := make([]byte, n)
		err := storetest.NewFault(memory(), rule).ReadAt(t.Context(), "c/0/0", p, off)
		return p, err
	}
	short := storetest.Rule{Kind: storetest.Short, At: 4}
	if p, err := read(short, 0, 4); err != nil || string(p) != "abcd" {
		t.Errorf("before the cut: %q %v", p, err)
	}
	if _, err := read(short, 0, 5); !errors.Is(err, nd.ErrCorrupt) {
		t.Errorf("across the cut: %v", err)
	}
	flip := storetest.Rule{Kind: storetest.Flip, At: 2}
	if p, err := read(flip, 1, 3); err != nil || !bytes.Equal(p, []byte{'b', 'c' ^ 0xff, 'd'}) {
		t.Errorf("flipped: %q %v", p, err)
	}
	if p, err := read(flip, 3, 3); err != nil || string(p) != "def" {
		t.Errorf("beside the flipped byte: %q %v", p, err)
	}
	if _, err := read(storetest.Rule{Kind: storetest.Missing}, 0, 1); !errors.Is(err, nd.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	if _, err := read(storetest.Rule{Err: context.DeadlineExceeded}, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("own error: %v", err)
	}
}

func TestBlockEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewFault(memory(), storetest.Rule{Kind: storetest.Block, Op: storetest.OpSize})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := st.Size(ctx, "c/1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jitter := storetest.Jitter(7, time.Second)
		st := &storetest.Latency{Store: memory(), Delay: jitter}
		start := time.Now()
		if err := st.ReadAt(t.Context(), "c/1", make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(start), jitter(storetest.OpRead, "c/1", 0, 1); got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
	jitter, again := storetest.Jitter(7, time.Second), storetest.Jitter(7, time.Second)
	if jitter(storetest.OpRead, "a", 0, 1) != again(storetest.OpRead, "a", 0, 1) {
		t.Error("the same range and seed have two delays")
	}
	if jitter(storetest.OpRead, "a", 0, 1) == jitter(storetest.OpRead, "a", 1, 1) {
		t.Error("two ranges have one delay")
	}
}

func TestCounting(t *testing.T) {
	st := storetest.NewCounting(memory())
	for range 2 {
		if err := st.ReadAt(t.Context(), "c/0/0", make([]byte, 3), 1); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = st.Size(t.Context(), "nothing") // the error is in the calls
	calls := st.Calls()
	if len(calls) != 3 || calls[0] != (storetest.Call{Op: storetest.OpRead, Key: "c/0/0", Off: 1, N: 3}) {
		t.Errorf("calls %+v", calls)
	}
	if n, bytes := st.Reads("c/0/0"); n != 2 || bytes != 6 {
		t.Errorf("%d reads of %d bytes, want 2 of 6", n, bytes)
	}
	if !errors.Is(calls[2].Err, nd.ErrNotFound) {
		t.Errorf("the size's error was not kept: %+v", calls[2])
	}
	if st.Reset(); len(st.Calls()) != 0 {
		t.Error("calls are left after Reset")
	}
}
