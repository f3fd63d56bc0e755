package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// opened is an array and where it lies. If the ArrayRef had no store, the one
// here was opened for it and the holder closes it.
type opened struct {
	store  store.Store
	prefix string // of the array's keys in store, "" for its root
	array  *zarr.Array
}

// openArray reads the metadata of the array that ref names. A group stands for
// level 0 of its first pyramid. What is not there is nd.ErrNotFound and names
// every document that was tried.
func openArray(ctx context.Context, ref ArrayRef, opts store.Options) (*opened, error) {
	st, prefix, err := storeOf(ref, opts)
	if err != nil {
		return nil, nd.At(err, nd.Place{Array: ref.URI})
	}
	o, err := openLevel(ctx, st, prefix, ref.Level)
	if err != nil {
		if ref.Store == nil {
			_ = st.Close() // the first error is the one that matters
		}
		return nil, nd.At(err, nd.Place{Array: ref.URI})
	}
	return o, nil
}

// storeOf is the store of a reference and the path in it.
func storeOf(ref ArrayRef, opts store.Options) (store.Store, string, error) {
	if ref.Store != nil {
		return ref.Store, strings.Trim(ref.URI, "/"), nil
	}
	st, err := store.Open(ref.URI, opts)
	return st, "", err
}

func openLevel(ctx context.Context, st store.Store, prefix, level string) (*opened, error) {
	n, err := findNode(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	isArray, err := n.isArray()
	if err != nil {
		return nil, err
	}
	if isArray && level != "" {
		return nil, nd.Errorf(nd.ErrNotFound, "level %q: %s is an array and has no levels", level, n.place(n.name))
	}
	if !isArray {
		if n, err = n.level(ctx, level); err != nil {
			return nil, err
		}
	}
	a, err := n.array(ctx)
	if err != nil {
		return nil, err
	}
	if a, err = probeKeys(ctx, st, n.prefix, a); err != nil {
		return nil, err
	}
	return &opened{st, n.prefix, a}, nil
}

// node is a node of a hierarchy: its metadata document, not yet parsed.
type node struct {
	store  store.Store
	prefix string
	name   string // of the document
	doc    []byte
	large  error // a document over the limit of its kind, nd.ErrUnsupported: doc is nil
}

// The documents that make a node, in the order in which they are looked for:
// where writers left both formats, version 3 is the newer. A folder that has
// only .zattrs is a group too: broken writers forget .zgroup.
var documents = [...]string{"zarr.json", ".zarray", ".zgroup", ".zattrs"}

// findNode reads the document of the node at a path of the store.
func findNode(ctx context.Context, st store.Store, prefix string) (*node, error) {
	n := &node{store: st, prefix: prefix}
	var tried []string
	for _, name := range documents {
		doc, err := n.read(ctx, name)
		if err == nil || errors.Is(err, nd.ErrUnsupported) {
			n.name, n.doc, n.large = name, doc, err
			return n.bounded(), nil
		}
		if !errors.Is(err, nd.ErrNotFound) {
			return nil, err
		}
		tried = append(tried, n.place(name))
	}
	return nil, nd.Errorf(nd.ErrNotFound, "no array and no group: tried %s", strings.Join(tried, ", "))
}

// bounded drops a zarr.json that only a group may have: which of the two it is
// stands inside, so its size alone could not tell.
func (n *node) bounded() *node {
	if n.name == "zarr.json" && len(n.doc) > zarr.MaxDocument {
		if is, err := zarr.IsArray(n.doc); is && err == nil {
			n.large = tooLarge(int64(len(n.doc)), zarr.MaxDocument, join(n.prefix, n.name))
			n.doc = nil
		}
	}
	return n
}

// read is a document of the node; one that is not there is nd.ErrNotFound, one
// over the limit of its kind nd.ErrUnsupported before any of it is read.
func (n *node) read(ctx context.Context, name string) ([]byte, error) {
	limit := int64(zarr.MaxDocument)
	if name == "zarr.json" || name == ".zmetadata" {
		limit = zarr.MaxGroupDocument
	}
	key := join(n.prefix, name)
	doc, err := store.ReadAll(ctx, n.store, key, limit)
	if errors.Is(err, nd.ErrBudget) {
		size, e := n.store.Size(ctx, key)
		if e != nil {
			return nil, e
		}
		return nil, tooLarge(size, limit, key)
	}
	return doc, err
}

func tooLarge(size, limit int64, key string) error {
	err := nd.Errorf(nd.ErrUnsupported, "metadata of %d bytes: at most %d are read", size, limit)
	return nd.At(err, nd.Place{File: key})
}

// place is a document's name for messages.
func (n *node) place(name string) string {
	return join(strings.TrimSuffix(n.store.String(), "/"), join(n.prefix, name))
}

// at fills the document's name into an error about its contents.
func (n *node) at(err error) error {
	return nd.At(err, nd.Place{File: join(n.prefix, n.name)})
}

func join(prefix, name string) string {
	if prefix == "" || name == "" {
		return prefix + name
	}
	return prefix + "/" + name
}

func (n *node) isArray() (bool, error) {
	if n.large != nil {
		return false, n.large
	}
	if n.name != "zarr.json" {
		return n.name == ".zarray", nil
	}
	is, err := zarr.IsArray(n.doc)
	return is, n.at(err)
}

// array parses the node as an array, with its attributes.
func (n *node) array(ctx context.Context) (*zarr.Array, error) {
	a, err := zarr.ParseArray(n.doc)
	if err != nil || a.Format != 2 {
		return a, n.at(err)
	}
	attributes, err := n.read(ctx, ".zattrs")
	switch {
	case errors.Is(err, nd.ErrNotFound):
		return a, nil
	case errors.Is(err, nd.ErrUnsupported):
		return withNote(a, err), nil
	case err != nil:
		return nil, err
	}
	return withAttributes(a, attributes), nil
}

// withAttributes adds a .zattrs document. Attributes are not needed to read the
// elements, so broken ones are a note.
func withAttributes(a *zarr.Array, doc []byte) *zarr.Array {
	b, err := a.WithAttributes(doc)
	if err != nil {
		return withNote(a, err)
	}
	return b
}

func withNote(a *zarr.Array, err error) *zarr.Array {
	c := *a
	c.Notes = append(slices.Clone(a.Notes), fmt.Sprintf(".zattrs is left out: %v", err))
	return &c
}

// group parses the node as a group, with its attributes.
func (n *node) group(ctx context.Context) (*zarr.Group, error) {
	doc, attributes := n.doc, []byte(nil)
	switch n.name {
	case "zarr.json":
		g, err := zarr.ParseGroup(doc)
		return g, n.at(err)
	case ".zattrs":
		doc, attributes = []byte(`{"zarr_format": 2}`), n.doc
	case ".zgroup":
		var err error
		attributes, err = n.read(ctx, ".zattrs")
		if err != nil && !errors.Is(err, nd.ErrNotFound) {
			return nil, err
		}
	}
	g, err := zarr.ParseGroup(doc)
	if err != nil || attributes == nil {
		return g, n.at(err)
	}
	g, err = g.WithAttributes(attributes)
	return g, nd.At(err, nd.Place{File: join(n.prefix, ".zattrs")})
}

// level finds the array of a level of the pyramids of a group: by path in any of
// them, else by index in the first.
func (n *node) level(ctx context.Context, name string) (*node, error) {
	g, err := n.group(ctx)
	if err != nil {
		return nil, err
	}
	all, err := zarr.ParseMultiscales(g.Attributes)
	if err != nil {
		return nil, n.at(err)
	}
	if len(all) == 0 {
		return nil, nd.Errorf(nd.ErrNotFound, "%s is a group without multiscales: name an array in it", n.place(""))
	}
	level, err := zarr.PickLevel(all, name)
	if err != nil {
		return nil, n.at(err)
	}
	found, err := findNode(ctx, n.store, join(n.prefix, level.Path))
	if err != nil {
		return nil, err
	}
	isArray, err := found.isArray()
	if err == nil && !isArray {
		err = nd.Errorf(nd.ErrNotFound, "level %q is a group, not an array", level.Path)
	}
	return found, found.at(err)
}

// consolidated is the map from relative paths to documents that a group may
// hold of the nodes below: inline in version 3, in .zmetadata in version 2.
func (n *node) consolidated(ctx context.Context, g *zarr.Group) (map[string]json.RawMessage, error) {
	if g.Format == 3 {
		return g.Consolidated, nil
	}
	doc, err := n.read(ctx, ".zmetadata")
	switch {
	case errors.Is(err, nd.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	docs, err := zarr.ParseConsolidated(doc)
	return docs, nd.At(err, nd.Place{File: join(n.prefix, ".zmetadata")})
}

// Metadata reads the metadata of the array that ref names, and nothing else.
func Metadata(ctx context.Context, ref ArrayRef) (*zarr.Array, error) {
	o, err := openArray(ctx, ref, store.Options{})
	if err != nil {
		return nil, err
	}
	if ref.Store != nil {
		return o.array, nil
	}
	return o.array, o.store.Close()
}
