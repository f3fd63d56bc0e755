package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// probeSeparator guards against a v2 array whose chunks lie under the other
// separator than its metadata say: all of them would read as fill. Some OME-Zarr
// writers left the separator out and wrote "0/0". The metadata are obeyed while
// one chunk exists under the expected keys; if none does and the other form is
// there, the result uses that one and says so in a note.
//
// It costs one look at the first chunk in most cases, and lists the folder only
// on suspicion: the first chunk lies under the other key, or nothing lies under
// either and the metadata name no separator.
func probeSeparator(ctx context.Context, st store.Store, prefix string, a *zarr.Array) (*zarr.Array, error) {
	rank := len(a.Shape)
	if a.Format != 2 || rank < 2 {
		return a, nil // keys of one axis have no separator
	}
	first := make([]int64, rank)
	found, err := exists(ctx, st, join(prefix, a.Key(first)))
	if err != nil || found {
		return a, err
	}
	found, err = exists(ctx, st, join(prefix, a.AlternateKey(first)))
	if err != nil || !found && !a.Keys.Implied {
		return a, err
	}
	nested, flat, err := chunkForms(ctx, st, prefix, rank)
	if err != nil {
		return a, err
	}
	expected, other := flat, nested
	if a.Keys.Separator == '/' {
		expected, other = nested, flat
	}
	if expected || !other {
		return a, nil
	}
	b := a.WithAlternateKeys("")
	b.Notes[len(b.Notes)-1] = fmt.Sprintf("no chunk has a key with %q, which the metadata ask for; keys with %q exist and are read",
		a.Keys.Separator, b.Keys.Separator)
	return b, nil
}

func exists(ctx context.Context, st store.Store, key string) (bool, error) {
	_, err := st.Size(ctx, key)
	if errors.Is(err, nd.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// chunkForms reports which forms of chunk keys an array's folder holds: "0/1"
// (nested) and "0.1" (flat). A nested chunk is looked for in the first numbered
// folder of each depth.
func chunkForms(ctx context.Context, st store.Store, prefix string, rank int) (nested, flat bool, err error) {
	names, err := list(ctx, st, prefix)
	if err != nil {
		return false, false, err
	}
	for _, name := range names {
		flat = flat || isFlatKey(name, rank)
	}
	for depth := 1; depth < rank; depth++ {
		folder := firstNumber(names, "/")
		if folder == "" {
			return false, flat, nil
		}
		prefix = join(prefix, strings.TrimSuffix(folder, "/"))
		if names, err = list(ctx, st, prefix); err != nil {
			return false, flat, err
		}
	}
	return firstNumber(names, "") != "", flat, nil
}

// list is the names below a folder, none if there is no such folder.
func list(ctx context.Context, st store.Store, prefix string) ([]string, error) {
	names, err := st.List(ctx, prefix)
	if errors.Is(err, nd.ErrNotFound) {
		return nil, nil
	}
	return names, err
}

// isFlatKey reports whether a name is numbers joined by ".", one an axis.
func isFlatKey(name string, rank int) bool {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if !isNumber(part) {
			return false
		}
	}
	return len(parts) == rank
}

// firstNumber is the first name that is a number followed by the suffix.
func firstNumber(names []string, suffix string) string {
	for _, name := range names {
		if number, ok := strings.CutSuffix(name, suffix); ok && isNumber(number) {
			return name
		}
	}
	return ""
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
