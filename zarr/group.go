package zarr

import (
	"encoding/json"
	"slices"
	"strings"
)

// Group is the meaning of one group's metadata, version 2 or 3.
type Group struct {
	Format int
	// Attributes is the user's JSON object, nil if there is none. In version 2 it
	// lies in a document of its own: see WithAttributes.
	Attributes json.RawMessage
	// Consolidated maps relative paths of the nodes below to their zarr.json; nil
	// if the group does not hold them. It may be older than the nodes themselves.
	Consolidated map[string]json.RawMessage
}

// ParseGroup reads the metadata of a group: a zarr.json of version 3 or a
// .zgroup of version 2. An array is nd.ErrNotFound.
func ParseGroup(doc []byte) (*Group, error) {
	p := &parser{}
	raw, err := p.document(doc, MaxGroupDocument)
	if err != nil {
		return nil, err
	}
	o, err := parseObject("group metadata", raw)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(o)
	if err != nil || format == 2 {
		return &Group{Format: format}, err
	}
	if err := checkNode(o, "group"); err != nil {
		return nil, err
	}
	if err := checkMembers(o, "zarr_format", "node_type", "attributes", "consolidated_metadata"); err != nil {
		return nil, err
	}
	g := &Group{Format: 3}
	if g.Attributes, err = attributesOf(o); err != nil {
		return nil, err
	}
	g.Consolidated, err = inlineConsolidated(o["consolidated_metadata"])
	return g, err
}

// WithAttributes is a copy of g with the attributes of a v2 .zattrs document.
func (g *Group) WithAttributes(doc []byte) (*Group, error) {
	p := &parser{}
	attributes, err := p.document(doc, MaxDocument)
	if err != nil {
		return nil, err
	}
	if _, err := parseObject("attributes", attributes); err != nil {
		return nil, err
	}
	c := *g
	c.Attributes = attributes
	return &c, nil
}

// IsArray tells an array from a group by node_type of a zarr.json, without
// judging the rest of it: ParseArray and ParseGroup do.
func IsArray(doc []byte) (bool, error) {
	if string(outerString(doc, "node_type")) == "array" {
		return true, nil
	}
	p := &parser{}
	raw, err := p.document(doc, MaxGroupDocument)
	if err != nil {
		return false, err
	}
	o, err := parseObject("zarr.json", raw)
	if err != nil {
		return false, err
	}
	if _, err := formatOf(o); err != nil {
		return false, err
	}
	return string(o["node_type"]) == `"array"`, nil
}

// inlineConsolidated reads consolidated_metadata of a v3 group. Kinds other than
// "inline" are passed over: the nodes themselves hold the same.
func inlineConsolidated(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if absent(raw) {
		return nil, nil
	}
	o, err := parseObject("consolidated_metadata", raw)
	if err != nil {
		return nil, err
	}
	if kind := o["kind"]; !absent(kind) && string(kind) != `"inline"` {
		return nil, nil
	}
	return consolidated("consolidated_metadata", o)
}

// ParseConsolidated reads a v2 .zmetadata: the map from the path of each
// document ("a/.zarray") to the document.
func ParseConsolidated(doc []byte) (map[string]json.RawMessage, error) {
	p := &parser{}
	raw, err := p.document(doc, MaxGroupDocument)
	if err != nil {
		return nil, err
	}
	o, err := parseObject(".zmetadata", raw)
	if err != nil {
		return nil, err
	}
	if format := o["zarr_consolidated_format"]; string(format) != "1" {
		return nil, unsupported("zarr_consolidated_format %s: 1 is read", excerpt(format))
	}
	return consolidated(".zmetadata", o)
}

func consolidated(what string, o object) (map[string]json.RawMessage, error) {
	entries, err := parseObject(what+" metadata", o["metadata"])
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(entries))
	for path, doc := range entries {
		clean, err := CleanPath(path)
		if err != nil {
			return nil, err
		}
		out[clean] = doc
	}
	return out, nil
}

// CleanPath is a path from metadata without empty and "." parts. A path must not
// leave the folder that it is relative to: ".." is nd.ErrCorrupt.
func CleanPath(path string) (string, error) {
	parts := strings.Split(path, "/")
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" || part == "." })
	for _, part := range parts {
		if part == ".." || strings.Contains(part, "\x00") {
			return "", corrupt("path %q in metadata: %q is not a node name", path, part)
		}
	}
	return strings.Join(parts, "/"), nil
}
