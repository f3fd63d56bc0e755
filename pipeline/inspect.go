package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// maxChildren bounds the listing of a group.
const maxChildren = 1000

// Node is what lies at a URI: an array or a group. The caller closes it.
type Node struct {
	URI   string
	Path  string      // of the node within Store
	Store store.Store // closed by Close
	// Document is the metadata document as it is stored, Name its name.
	Name     string
	Document json.RawMessage
	// Array is set for an array that headrace reads, Group for a group.
	Array *zarr.Array
	Group *zarr.Group
	// Err says why the metadata are not read; nd.ErrUnsupported or nd.ErrCorrupt.
	// A group with broken OME metadata has both Group and Err.
	Err error
	// Multiscales are the OME-Zarr pyramids of a group, Labels the paths of its
	// label images.
	Multiscales []zarr.Multiscale
	Labels      []string
	// Children are the nodes directly below a group, by path.
	Children []Child
	// Notes are remarks on a group; an array has its own.
	Notes []string
}

// Child is a node directly below a group.
type Child struct {
	Path  string // relative to the group
	Group bool
	Array *zarr.Array // nil for a group, and for an array that is not read
	Err   error       // why not
}

// Inspect reads the metadata of the node at a URI: of an array, or of a group
// with the nodes directly below it. Children come from consolidated metadata
// where the group holds them, else from a listing. An error means that nothing
// could be read there; metadata that are broken or not read are Node.Err.
func Inspect(ctx context.Context, uri string) (*Node, error) {
	st, err := store.Open(uri, store.Options{})
	if err != nil {
		return nil, nd.At(err, nd.Place{Array: uri})
	}
	n, err := InspectStore(ctx, st, "")
	if err != nil {
		_ = st.Close() // the first error is the one that matters
		return nil, nd.At(err, nd.Place{Array: uri})
	}
	n.URI = uri
	return n, nil
}

// InspectStore is Inspect for a path of a store that is open. The node then owns
// the store.
func InspectStore(ctx context.Context, st store.Store, path string) (*Node, error) {
	at, err := findNode(ctx, st, strings.Trim(path, "/"))
	if err != nil {
		return nil, err
	}
	n := &Node{URI: at.place(""), Path: at.prefix, Store: st, Name: at.name, Document: at.doc}
	isArray, err := at.isArray()
	switch {
	case err != nil:
	case isArray:
		err = n.readArray(ctx, at)
	default:
		err = n.readGroup(ctx, at)
	}
	if err != nil && !aboutContents(err) {
		return nil, err
	}
	n.Err = err
	return n, nil
}

// Close closes the store.
func (n *Node) Close() error { return n.Store.Close() }

// aboutContents tells what metadata say from failures to get at them.
func aboutContents(err error) bool {
	return errors.Is(err, nd.ErrCorrupt) || errors.Is(err, nd.ErrUnsupported)
}

func (n *Node) readArray(ctx context.Context, at *node) error {
	a, err := at.array(ctx)
	if err != nil {
		return err
	}
	n.Array, err = probeKeys(ctx, at.store, at.prefix, a)
	return err
}

func (n *Node) readGroup(ctx context.Context, at *node) error {
	g, err := at.group(ctx)
	if err != nil {
		return err
	}
	n.Group = g
	if at.name == ".zattrs" {
		n.Notes = append(n.Notes, ".zgroup is missing")
	}
	if err := n.readChildren(ctx, at); err != nil {
		return err
	}
	if n.Multiscales, err = zarr.ParseMultiscales(g.Attributes); err != nil {
		return at.at(err)
	}
	n.Labels, err = zarr.ParseLabels(g.Attributes)
	return at.at(err)
}

func (n *Node) readChildren(ctx context.Context, at *node) error {
	docs, err := at.consolidated(ctx, n.Group)
	if err != nil {
		if !aboutContents(err) {
			return err
		}
		n.Notes = append(n.Notes, fmt.Sprintf("consolidated metadata are left out: %v", err))
	}
	if len(docs) > 0 {
		n.Children = childrenOf(docs)
		return nil
	}
	return n.listChildren(ctx, at)
}

// listChildren finds the nodes below a folder by a listing.
func (n *Node) listChildren(ctx context.Context, at *node) error {
	names, err := list(ctx, at.store, at.prefix)
	for _, name := range names {
		folder, ok := strings.CutSuffix(name, "/")
		if !ok {
			continue
		}
		if len(n.Children) == maxChildren {
			n.Notes = append(n.Notes, fmt.Sprintf("only the first %d nodes are listed", maxChildren))
			break
		}
		child, ok, err := readChild(ctx, at.store, at.prefix, folder)
		if err != nil {
			return err
		}
		if ok {
			n.Children = append(n.Children, child)
		}
	}
	return err
}

// readChild reads the node in a folder; ok is false if there is none.
func readChild(ctx context.Context, st store.Store, prefix, folder string) (child Child, ok bool, err error) {
	at, err := findNode(ctx, st, join(prefix, folder))
	if err != nil {
		if errors.Is(err, nd.ErrNotFound) {
			err = nil
		}
		return child, false, err
	}
	child.Path = folder
	isArray, err := at.isArray()
	switch {
	case err != nil:
	case isArray:
		child.Array, err = at.array(ctx)
	default:
		child.Group = true
	}
	if err != nil && !aboutContents(err) {
		return child, false, err
	}
	child.Err = err
	return child, true, nil
}

// childrenOf finds the nodes directly below a group in consolidated metadata of
// either version. A folder that only leads to other nodes counts as a group.
func childrenOf(docs map[string]json.RawMessage) []Child {
	children := map[string]*Child{}
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		name, rest, _ := strings.Cut(path, "/")
		if strings.HasPrefix(name, ".z") || name == "" {
			continue // the group's own documents
		}
		c := children[name]
		if c == nil {
			c = &Child{Path: name, Group: true}
			children[name] = c
		}
		switch rest {
		case "": // version 3: the document of the node itself
			isArray, err := zarr.IsArray(docs[path])
			c.Group, c.Err = err == nil && !isArray, err
			if isArray {
				c.Array, c.Err = zarr.ParseArray(docs[path])
			}
		case ".zarray":
			c.Group = false
			c.Array, c.Err = zarr.ParseArray(docs[path])
			if attributes := docs[name+"/.zattrs"]; c.Err == nil && attributes != nil {
				c.Array = withAttributes(c.Array, attributes)
			}
		}
		if len(children) == maxChildren {
			break
		}
	}
	all := make([]Child, 0, len(children))
	for _, name := range slices.Sorted(maps.Keys(children)) {
		all = append(all, *children[name])
	}
	return all
}
