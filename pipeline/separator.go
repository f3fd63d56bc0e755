package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// probeKeys guards against an array whose chunks have keys of another form than
// its metadata say: all of them would read as fill. Some OME-Zarr writers left
// the separator out and wrote "0/0"; converters leave the keys of the other
// version. The metadata are obeyed while one chunk exists under the expected
// keys, and where two other forms exist; if there is exactly one other, the
// result uses that and says so in a note.
//
// It costs one look at the first chunk in most cases, and one listing of the
// folder if that is missing. More is listed only for folders that bear the
// name of another form.
func probeKeys(ctx context.Context, st store.Store, prefix string, a *zarr.Array) (*zarr.Array, error) {
	if slices.Contains(a.Shape, 0) {
		return a, nil // no chunks
	}
	first := make([]int64, len(a.Shape))
	expected := a.Key(first)
	found, err := exists(ctx, st, join(prefix, expected))
	if err != nil || found {
		return a, err
	}
	names, err := list(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	folder := keyFolder{st, prefix, names}
	form, other, err := folder.otherForm(ctx, first, expected)
	if err != nil || other == "" {
		return a, err
	}
	if found, err = folder.holds(ctx, expected); err != nil || found {
		return a, err
	}
	return a.WithKeys(form, fmt.Sprintf("no chunk has a key like %q (%v), which the metadata ask for; keys like %q (%v) exist and are read",
		expected, a.Keys, other, form)), nil
}

func exists(ctx context.Context, st store.Store, key string) (bool, error) {
	_, err := st.Size(ctx, key)
	if errors.Is(err, nd.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// keyFolder is a folder in which keys of chunks are looked for.
type keyFolder struct {
	store  store.Store
	prefix string
	names  []string // directly below prefix; folders end in "/"
}

// otherForm finds the one form of keys that the folder holds beside the
// expected one. first is the coordinate of the first chunk, like its key in that
// form; "" if there is none or more than one. Forms that do not differ for the
// rank of the array count once.
func (f keyFolder) otherForm(ctx context.Context, first []int64, expected string) (form zarr.KeyEncoding, like string, err error) {
	seen := []string{expected}
	for _, k := range zarr.KeyEncodings() {
		key := k.Key(first)
		if slices.Contains(seen, key) {
			continue
		}
		seen = append(seen, key)
		found, err := f.holds(ctx, key)
		switch {
		case err != nil:
			return form, "", err
		case found && like != "":
			return form, "", nil
		case found:
			form, like = k, key
		}
	}
	return form, like, nil
}

// holds reports whether the folder holds an object whose key differs from the
// given one in nothing but its numbers.
func (f keyFolder) holds(ctx context.Context, key string) (bool, error) {
	part, rest, nested := strings.Cut(key, "/")
	for _, name := range f.names {
		folder, isFolder := strings.CutSuffix(name, "/")
		if isFolder != nested || !sameForm(folder, part) {
			continue
		}
		if !nested {
			return true, nil
		}
		below := join(f.prefix, folder)
		names, err := list(ctx, f.store, below)
		if err != nil {
			return false, err
		}
		if found, err := (keyFolder{f.store, below, names}).holds(ctx, rest); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// list is the names below a folder, none if there is no such folder.
func list(ctx context.Context, st store.Store, prefix string) ([]string, error) {
	names, err := st.List(ctx, prefix)
	if errors.Is(err, nd.ErrNotFound) {
		return nil, nil
	}
	return names, err
}

// sameForm reports whether a name has the parts of a model such as "c.0.0": "c"
// where that has it, a number for each 0.
func sameForm(name, model string) bool {
	parts := strings.Split(name, ".")
	models := strings.Split(model, ".")
	if len(parts) != len(models) {
		return false
	}
	for i, part := range parts {
		if models[i] == "0" && !isNumber(part) || models[i] != "0" && part != models[i] {
			return false
		}
	}
	return true
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
