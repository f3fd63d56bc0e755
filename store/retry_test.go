package store_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
)

// retryOf makes a store that fails by rule and is retried with the default
// policy.
func retryOf(rules ...storetest.Rule) (*store.Retry, *storetest.Counting) {
	inner := store.NewMemory(map[string][]byte{"a": []byte("abc")})
	counting := storetest.NewCounting(storetest.NewFault(inner, rules...))
	return store.NewRetry(counting, store.RetryPolicy{}), counting
}

func TestRetryPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, counting := retryOf(storetest.Rule{Count: 3})
		start := time.Now()
		if err := st.ReadAt(t.Context(), "a", make([]byte, 3), 0); err != nil {
			t.Errorf("the fourth call works, got %v", err)
		}
		if took := time.Since(start); took != 420*time.Millisecond {
			t.Errorf("paused %v, want 20+80+320 ms", took)
		}
		if n, _ := counting.Reads("a"); n != 4 {
			t.Errorf("%d reads, want 4", n)
		}
		if n := st.Stats().Retries; n != 3 {
			t.Errorf("%d retries counted, want 3", n)
		}
	})
}

func TestRetryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, counting := retryOf(storetest.Rule{}, storetest.Rule{Op: storetest.OpSize}, storetest.Rule{Op: storetest.OpList})
		if err := st.ReadAt(t.Context(), "a", make([]byte, 3), 0); !errors.Is(err, nd.ErrIO) {
			t.Errorf("read: %v", err)
		}
		if _, err := st.Size(t.Context(), "a"); !errors.Is(err, nd.ErrIO) {
			t.Errorf("size: %v", err)
		}
		if _, err := st.List(t.Context(), ""); !errors.Is(err, nd.ErrIO) {
			t.Errorf("list: %v", err)
		}
		if n := len(counting.Calls()); n != 12 {
			t.Errorf("%d calls, want 4 of each method", n)
		}
	})
}

// Only what may pass is tried again: neither missing objects nor corrupt data,
// nor what the system will refuse for ever.
func TestRetryLeavesOtherErrors(t *testing.T) {
	f := func(kind storetest.Kind, cause error, want error) {
		t.Helper()
		st, counting := retryOf(storetest.Rule{Kind: kind, Err: cause})
		if err := st.ReadAt(t.Context(), "a", make([]byte, 3), 0); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if n, _ := counting.Reads("a"); n != 1 {
			t.Errorf("%v: %d reads, want 1", want, n)
		}
	}
	f(storetest.Missing, nil, nd.ErrNotFound)
	f(storetest.Short, nil, nd.ErrCorrupt)
	f(storetest.Fail, nd.Errorf(nd.ErrIO, "open: %w", os.ErrPermission), os.ErrPermission)
	f(storetest.Fail, nd.Errorf(nd.ErrIO, "open: %w", syscall.ELOOP), syscall.ELOOP)
	f(storetest.Fail, context.DeadlineExceeded, context.DeadlineExceeded)
}

func TestRetryStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _ := retryOf(storetest.Rule{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := st.ReadAt(ctx, "a", make([]byte, 3), 0)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 50*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}
