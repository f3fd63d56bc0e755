package storetest

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// Op is a method of a store.
type Op uint8

// The methods that a fault can hit.
const (
	OpRead Op = iota // ReadAt
	OpSize
	OpList
)

// String is the name of the method.
func (op Op) String() string { return [...]string{"ReadAt", "Size", "List"}[op] }

// Kind is what a fault does to a call.
type Kind uint8

// The kinds of faults.
const (
	// Fail gives Rule.Err, by default an error of kind nd.ErrIO.
	Fail Kind = iota
	// Short lets the object end at byte Rule.At: reads beyond are nd.ErrCorrupt as
	// the store itself would say, and Size is Rule.At.
	Short
	// Flip inverts byte Rule.At of the object in reads that cover it.
	Flip
	// Block waits until the context is done.
	Block
	// Missing is nd.ErrNotFound.
	Missing
)

// Rule says which calls fail and how.
type Rule struct {
	// Key is a pattern of package path for the key; "..." as its last part matches
	// everything below. Empty matches every key.
	Key string
	Op  Op
	// From is the first matching call that is hit, counted from 1 (0 is 1), and
	// Count how many from there on; 0 is all of them.
	From, Count int

	Kind Kind
	At   int64 // byte of the object, for Short and Flip
	Err  error // for Fail
}

// Fault is a store whose calls fail by rule. The first rule that hits a call
// decides; every matching rule counts the call.
type Fault struct {
	store.Store
	mu    sync.Mutex
	rules []Rule
	seen  []int
	hits  int
}

// NewFault wraps a store. It panics on a bad pattern: that is a bug of the test.
func NewFault(inner store.Store, rules ...Rule) *Fault {
	for _, r := range rules {
		if _, err := path.Match(strings.TrimSuffix(r.Key, "..."), ""); err != nil {
			panic(fmt.Sprintf("storetest: pattern %q: %v", r.Key, err))
		}
	}
	return &Fault{Store: inner, rules: rules, seen: make([]int, len(rules))}
}

// Hits is the number of calls that a rule decided.
func (f *Fault) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// ReadAt implements store.Store.
func (f *Fault) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	r := f.rule(OpRead, key)
	if r == nil {
		return f.Store.ReadAt(ctx, key, p, off)
	}
	switch r.Kind {
	case Short:
		if end := off + int64(len(p)); end > r.At {
			err := nd.Errorf(nd.ErrCorrupt, "ends at byte %d, wanted %d..%d", r.At, off, end)
			return nd.At(err, nd.Place{File: key, Offset: off, Length: int64(len(p))})
		}
		return f.Store.ReadAt(ctx, key, p, off)
	case Flip:
		err := f.Store.ReadAt(ctx, key, p, off)
		if err == nil && off <= r.At && r.At < off+int64(len(p)) {
			p[r.At-off] ^= 0xff
		}
		return err
	}
	return r.fail(ctx, key)
}

// Size implements store.Store.
func (f *Fault) Size(ctx context.Context, key string) (int64, error) {
	r := f.rule(OpSize, key)
	switch {
	case r == nil || r.Kind == Flip:
		return f.Store.Size(ctx, key)
	case r.Kind == Short:
		return r.At, nil
	}
	return 0, r.fail(ctx, key)
}

// List implements store.Store.
func (f *Fault) List(ctx context.Context, prefix string) ([]string, error) {
	r := f.rule(OpList, prefix)
	if r == nil || r.Kind == Flip || r.Kind == Short {
		return f.Store.List(ctx, prefix)
	}
	return nil, r.fail(ctx, prefix)
}

func (f *Fault) rule(op Op, key string) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hit *Rule
	for i := range f.rules {
		r := &f.rules[i]
		if r.Op != op || !matches(r.Key, key) {
			continue
		}
		f.seen[i]++
		first := max(1, r.From)
		if n := f.seen[i]; hit == nil && n >= first && (r.Count == 0 || n < first+r.Count) {
			hit = r
		}
	}
	if hit != nil {
		f.hits++
	}
	return hit
}

func (r *Rule) fail(ctx context.Context, key string) error {
	place := nd.Place{File: key}
	switch {
	case r.Kind == Block:
		<-ctx.Done()
		return ctx.Err()
	case r.Kind == Missing:
		return nd.At(nd.Errorf(nd.ErrNotFound, "injected"), place)
	case r.Err != nil:
		return nd.At(r.Err, place)
	}
	return nd.At(nd.Errorf(nd.ErrIO, "injected"), place)
}

func matches(pattern, key string) bool {
	if pattern == "" {
		return true
	}
	if below, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(key, below)
	}
	ok, _ := path.Match(pattern, key) // NewFault checked the pattern
	return ok
}
