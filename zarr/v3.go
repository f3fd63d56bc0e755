package zarr

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/headrace/headrace/nd"
)

// parseV3 reads a zarr.json of an array.
func (p *parser) parseV3(doc object) (*Array, error) {
	if err := checkMembers(doc, "zarr_format", "node_type", "shape", "data_type", "chunk_grid",
		"chunk_key_encoding", "fill_value", "codecs", "attributes", "storage_transformers",
		"dimension_names"); err != nil {
		return nil, err
	}
	if err := require("zarr.json", doc, "shape", "data_type", "chunk_grid",
		"chunk_key_encoding", "codecs"); err != nil {
		return nil, err
	}
	if err := p.noTransformers(doc["storage_transformers"]); err != nil {
		return nil, err
	}
	a := &Array{Format: 3}
	var err error
	if a.Shape, err = parseExtents("shape", doc["shape"], 0); err != nil {
		return nil, err
	}
	if a.DType, err = p.parseDTypeV3(doc["data_type"]); err != nil {
		return nil, err
	}
	if a.Keys, err = p.parseKeyEncoding(doc["chunk_key_encoding"]); err != nil {
		return nil, err
	}
	chunk, err := p.regularGrid(doc["chunk_grid"], len(a.Shape))
	if err != nil {
		return nil, err
	}
	chain := chainReader{parser: p, dtype: a.DType}
	if err := chain.read(doc["codecs"], chunk, identity(len(chunk))); err != nil {
		return nil, err
	}
	a.Levels = chain.levels
	if a.Fill, err = (fillReader{p, a.DType, true}).fill(doc["fill_value"]); err != nil {
		return nil, err
	}
	if a.DimensionNames, err = dimensionNames(doc["dimension_names"], len(a.Shape)); err != nil {
		return nil, err
	}
	a.Attributes, err = attributesOf(doc)
	return a, err
}

// checkMembers refuses members that are not known, unless they say that a
// reader may ignore them.
func checkMembers(doc object, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		if !slices.Contains(known, name) && !optional(doc[name]) {
			return unsupported("member %q of zarr.json: it does not say must_understand false", name)
		}
	}
	return nil
}

func (p *parser) noTransformers(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	list, err := parseList("storage_transformers", raw)
	if err != nil || len(list) == 0 {
		return err
	}
	e, err := p.parseExtension("storage transformer", list[0])
	if err != nil {
		return err
	}
	return unsupported("storage transformer %q", e.name)
}

// regularGrid reads the chunk extents of chunk_grid.
func (p *parser) regularGrid(raw json.RawMessage, rank int) ([]int64, error) {
	e, err := p.parseExtension("chunk_grid", raw)
	if err != nil {
		return nil, err
	}
	if e.name != "regular" {
		return nil, unsupported("chunk grid %q", e.name)
	}
	settings, err := e.only("chunk grid", "chunk_shape")
	if err != nil {
		return nil, err
	}
	chunk, err := parseExtents("chunk_shape", settings["chunk_shape"], 1)
	if err != nil {
		return nil, err
	}
	if len(chunk) != rank {
		return nil, corrupt("chunk_shape %v has rank %d, shape has rank %d", chunk, len(chunk), rank)
	}
	return chunk, nil
}

func dimensionNames(raw json.RawMessage, rank int) ([]string, error) {
	if absent(raw) {
		return nil, nil
	}
	var list []*string
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != rank {
		return nil, corrupt("dimension_names is %s, expected %d names or nulls", excerpt(raw), rank)
	}
	names := make([]string, rank)
	for i, name := range list {
		if name != nil {
			names[i] = *name
		}
	}
	return names, nil
}

// attributesOf is the attributes member, nil if absent.
func attributesOf(doc object) (json.RawMessage, error) {
	raw := doc["attributes"]
	if absent(raw) {
		return nil, nil
	}
	if raw[0] != '{' { // it is valid JSON and may be large: what it holds is not looked at
		return nil, corrupt("attributes is %s, expected an object", excerpt(raw))
	}
	return raw, nil
}

// checkSizes refuses a leaf chunk whose bytes do not fit an int64.
func checkSizes(a *Array) error {
	n, ok := nd.Product(a.Leaf().Chunk)
	if !ok || n > maxExtent/int64(a.DType.Size()) {
		return corrupt("a chunk of %v elements of %s overflows", a.Leaf().Chunk, a.DType.Name)
	}
	return nil
}
