package store

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headrace/headrace/nd"
)

// RetryPolicy says how often and how soon a call that failed with nd.ErrIO is
// made again. Fields that are 0 take their value from DefaultRetry.
type RetryPolicy struct {
	Attempts int           // calls in all; 1 = never again
	First    time.Duration // pause before the second call
	Factor   int           // each further pause is this many times longer
}

// DefaultRetry waits 20, 80 and 320 ms: together longer than the hiccup of a
// network file system that fails over, short beside the seconds after which a
// trainer takes a stalled loader for dead.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{Attempts: 4, First: 20 * time.Millisecond, Factor: 4}
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	d := DefaultRetry()
	if p.Attempts <= 0 {
		p.Attempts = d.Attempts
	}
	if p.First <= 0 {
		p.First = d.First
	}
	if p.Factor <= 0 {
		p.Factor = d.Factor
	}
	return p
}

// Retry makes the calls of another store again when they fail with an error that
// may pass. The last error is given unchanged. It owns the other store.
type Retry struct {
	inner   Store
	policy  RetryPolicy
	retries atomic.Uint64
}

// NewRetry wraps a store; closing the result closes it.
func NewRetry(inner Store, policy RetryPolicy) *Retry {
	return &Retry{inner: inner, policy: policy.withDefaults()}
}

// ReadAt implements Store.
func (r *Retry) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	// The first call stands alone so that the usual case makes no closure.
	err := r.inner.ReadAt(ctx, key, p, off)
	if !transient(err) {
		return err
	}
	return r.again(ctx, err, func() error { return r.inner.ReadAt(ctx, key, p, off) })
}

// Size implements Store.
func (r *Retry) Size(ctx context.Context, key string) (int64, error) {
	n, err := r.inner.Size(ctx, key)
	err = r.again(ctx, err, func() (err error) {
		n, err = r.inner.Size(ctx, key)
		return err
	})
	return n, err
}

// Map implements Mapper; it is nd.ErrUnsupported where the other store does not. It
// is not made again: who cannot map reads.
func (r *Retry) Map(ctx context.Context, key string, off, n int64) ([]byte, uint64, error) {
	inner, ok := r.inner.(Mapper)
	if !ok {
		return nil, 0, nd.Errorf(nd.ErrUnsupported, "objects of this store cannot be mapped")
	}
	return inner.Map(ctx, key, off, n)
}

// Resident implements Mapper.
func (r *Retry) Resident(ctx context.Context, key string, off, n int64) (bool, error) {
	inner, ok := r.inner.(Mapper)
	if !ok {
		return false, nil
	}
	return inner.Resident(ctx, key, off, n)
}

// Version implements Versioned; it is 0 where the other store has no versions.
func (r *Retry) Version(ctx context.Context, key string) (uint64, error) {
	inner, ok := r.inner.(Versioned)
	if !ok {
		return 0, nil
	}
	v, err := inner.Version(ctx, key)
	if !transient(err) {
		return v, err
	}
	err = r.again(ctx, err, func() (err error) {
		v, err = inner.Version(ctx, key)
		return err
	})
	return v, err
}

// List implements Store.
func (r *Retry) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := r.inner.List(ctx, prefix)
	err = r.again(ctx, err, func() (err error) {
		names, err = r.inner.List(ctx, prefix)
		return err
	})
	return names, err
}

// String is that of the other store.
func (r *Retry) String() string { return r.inner.String() }

// Close closes the other store.
func (r *Retry) Close() error { return r.inner.Close() }

// Unwrap is the other store.
func (r *Retry) Unwrap() Store { return r.inner }

// Stats adds the number of retries to the other store's counts.
func (r *Retry) Stats() Stats {
	var s Stats
	if counted, ok := r.inner.(interface{ Stats() Stats }); ok {
		s = counted.Stats()
	}
	s.Retries += r.retries.Load()
	return s
}

// again repeats call while its error may pass; err is that of the first call.
func (r *Retry) again(ctx context.Context, err error, call func() error) error {
	pause := r.policy.First
	for n := 1; n < r.policy.Attempts && transient(err); n++ {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		pause *= time.Duration(r.policy.Factor)
		r.retries.Add(1)
		err = call()
	}
	return err
}

// lasting are the system errors that no repetition cures.
var lasting = [...]error{fs.ErrPermission, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL}

func transient(err error) bool {
	if !errors.Is(err, nd.ErrIO) {
		return false
	}
	for _, l := range lasting {
		if errors.Is(err, l) {
			return false
		}
	}
	return true
}
