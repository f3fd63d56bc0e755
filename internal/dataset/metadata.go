package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

// The names of codecs that need no configuration:
//
//	none                                   no codec
//	zstd gzip zlib lz4 crc32c              as zarr and numcodecs know them
//	blosc-zstd blosc-lz4 blosc-lz4hc blosc-zlib blosc-blosclz
//	                                       with byte shuffle; "-bitshuffle" or
//	                                       "-noshuffle" may follow
//	delta shuffle                          on the array's own type
//	transpose                              all axes reversed (format 2: order "F")
//	big                                    big-endian elements
//
// Every other codec is written with its configuration.

// codecDoc is a codec in the metadata.
type codecDoc struct {
	name   string
	config map[string]any
}

// layout is an array's codecs sorted by what they work on.
type layout struct {
	order   []int // stored axis i is axis order[i] of the array; nil for C order
	big     bool
	filters []codecDoc // elements to elements
	bytes   []codecDoc // bytes to bytes
}

func (a *Array) layout() (layout, error) {
	var l layout
	for _, c := range a.Codecs {
		if err := l.add(a, c); err != nil {
			return l, nd.Errorf(nd.ErrConfig, "array %q: %w", a.Path, err)
		}
	}
	if l.big && len(l.filters) > 0 {
		return l, nd.Errorf(nd.ErrConfig, "array %q: big-endian elements and filters together are not written", a.Path)
	}
	if a.Format == 2 && l.order != nil && !slices.Equal(l.order, reversedAxes(len(a.Shape))) {
		return l, nd.Errorf(nd.ErrConfig, "array %q: zarr format 2 knows no transpose but that of all axes", a.Path)
	}
	return l, nil
}

func (l *layout) add(a *Array, c scenario.Codec) error {
	doc := codecDoc{name: c.Name}
	if c.Config != nil {
		if err := json.Unmarshal(c.Config, &doc.config); err != nil {
			return fmt.Errorf("codec %s: its configuration is no JSON object: %w", c.Name, err)
		}
	} else if doc = a.named(c.Name); doc.name == "" {
		return fmt.Errorf("codec %q needs a configuration: write it as an object", c.Name)
	}
	switch doc.name {
	case "none":
	case "big":
		l.big = true
	case "transpose":
		order, err := transposeOrder(c.Config, len(a.Shape))
		if err != nil || l.order != nil {
			return fmt.Errorf("codec transpose: one permutation of the %d axes is written", len(a.Shape))
		}
		l.order = order
	case "delta", "fixedscaleoffset", "bitround", "quantize", "packbits", "astype":
		if len(l.bytes) > 0 {
			return fmt.Errorf("codec %s works on elements: put it before %s", doc.name, l.bytes[0].name)
		}
		l.filters = append(l.filters, doc)
	default:
		l.bytes = append(l.bytes, doc)
	}
	return nil
}

// named is the codec of a name alone; its own name is empty if there is none.
func (a *Array) named(name string) codecDoc {
	size := a.DType.Size()
	if flavour, ok := strings.CutPrefix(name, "blosc-"); ok {
		return a.blosc(flavour)
	}
	switch name {
	case "none", "big", "transpose", "crc32c":
		return codecDoc{name: name}
	case "zstd":
		return codecDoc{name, map[string]any{"level": a.Level, "checksum": false}}
	case "gzip", "zlib":
		return codecDoc{name, map[string]any{"level": a.Level}}
	case "lz4":
		return codecDoc{name, map[string]any{"acceleration": 1}}
	case "delta":
		return codecDoc{name, map[string]any{"dtype": v2DType(a.DType, false)}}
	case "shuffle":
		return codecDoc{name, map[string]any{"elementsize": size}}
	}
	return codecDoc{}
}

func (a *Array) blosc(flavour string) codecDoc {
	cname, mode, ok := strings.Cut(flavour, "-")
	if !ok {
		mode = "shuffle"
	}
	config := map[string]any{"cname": cname, "clevel": a.Level, "blocksize": 0}
	if a.Format == 2 {
		number := map[string]int{"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
		config["shuffle"] = number[mode]
	} else {
		config["shuffle"] = mode
		config["typesize"] = a.DType.Size()
	}
	return codecDoc{"blosc", config}
}

// recipe is kept in the attributes, so that a data set tells how it was made and
// Write can tell whether it is the one that is wanted.
type recipe struct {
	Field   string  `json:"field"`
	Entropy float64 `json:"entropy"`
	Seed    uint64  `json:"seed"`
	Encoder string  `json:"encoder,omitempty"`
}

type attributes struct {
	Recipe recipe `json:"headrace"`
}

func (a *Array) attributes() attributes {
	return attributes{recipe{a.Field, a.Entropy, a.Seed, a.Encoder}}
}

// documents are the metadata files of the array: name to content. The first is
// the one that makes it an array.
func (a *Array) documents() (names []string, docs [][]byte, err error) {
	l, err := a.layout()
	if err != nil {
		return nil, nil, err
	}
	files := []any{a.v3(l)}
	names = []string{"zarr.json"}
	if a.Format == 2 {
		files = []any{a.v2(l), a.attributes()}
		names = []string{".zarray", ".zattrs"}
	}
	for _, file := range files {
		doc, err := json.MarshalIndent(file, "", "  ")
		if err != nil {
			return nil, nil, nd.Errorf(nd.ErrBug, "metadata of %q: %w", a.Path, err)
		}
		docs = append(docs, append(doc, '\n'))
	}
	return names, docs, nil
}

// v3Doc is an extension point of format 3.
type v3Doc struct {
	Name   string         `json:"name"`
	Config map[string]any `json:"configuration,omitempty"`
}

type v3Array struct {
	ZarrFormat int        `json:"zarr_format"`
	NodeType   string     `json:"node_type"`
	Shape      []int64    `json:"shape"`
	DataType   string     `json:"data_type"`
	ChunkGrid  v3Doc      `json:"chunk_grid"`
	Keys       v3Doc      `json:"chunk_key_encoding"`
	Fill       any        `json:"fill_value"`
	Codecs     []v3Doc    `json:"codecs"`
	Attributes attributes `json:"attributes"`
}

func (a *Array) v3(l layout) v3Array {
	doc := v3Array{
		ZarrFormat: 3, NodeType: "array", Shape: orEmpty(a.Shape), DataType: a.DType.Name(),
		ChunkGrid: v3Doc{"regular", map[string]any{"chunk_shape": orEmpty(a.object())}},
		Keys:      v3Doc{"default", map[string]any{"separator": "/"}},
		Fill:      a.fill(), Codecs: a.v3Codecs(l), Attributes: a.attributes(),
	}
	if a.Shard != nil {
		doc.Codecs = []v3Doc{{"sharding_indexed", map[string]any{
			"chunk_shape":    a.Chunk,
			"codecs":         doc.Codecs,
			"index_codecs":   []v3Doc{{"bytes", map[string]any{"endian": "little"}}, {Name: "crc32c"}},
			"index_location": "end",
		}}}
	}
	return doc
}

func (a *Array) v3Codecs(l layout) []v3Doc {
	var docs []v3Doc
	if l.order != nil {
		docs = append(docs, v3Doc{"transpose", map[string]any{"order": l.order}})
	}
	for _, f := range l.filters {
		docs = append(docs, v3Doc{v3Name(f.name), f.config})
	}
	endian := "little"
	if l.big {
		endian = "big"
	}
	docs = append(docs, v3Doc{"bytes", map[string]any{"endian": endian}})
	for _, b := range l.bytes {
		docs = append(docs, v3Doc{v3Name(b.name), b.config})
	}
	return docs
}

// v3Name is the name under which format 3 knows a codec of numcodecs.
func v3Name(name string) string {
	switch name {
	case "blosc", "zstd", "gzip", "crc32c":
		return name
	}
	return "numcodecs." + strings.TrimPrefix(name, "numcodecs.")
}

type v2Array struct {
	ZarrFormat int              `json:"zarr_format"`
	Shape      []int64          `json:"shape"`
	Chunks     []int64          `json:"chunks"`
	DType      string           `json:"dtype"`
	Compressor map[string]any   `json:"compressor"`
	Fill       any              `json:"fill_value"`
	Order      string           `json:"order"`
	Filters    []map[string]any `json:"filters"`
	Separator  string           `json:"dimension_separator"`
}

// v2 makes the last codec on bytes the compressor and all others filters.
func (a *Array) v2(l layout) v2Array {
	doc := v2Array{
		ZarrFormat: 2, Shape: orEmpty(a.Shape), Chunks: orEmpty(a.Chunk), DType: v2DType(a.DType, l.big),
		Fill: a.fill(), Order: "C", Separator: "/",
	}
	if l.order != nil {
		doc.Order = "F"
	}
	filters := l.filters
	if n := len(l.bytes); n > 0 {
		doc.Compressor = l.bytes[n-1].v2()
		filters = append(slices.Clip(filters), l.bytes[:n-1]...)
	}
	for _, f := range filters {
		doc.Filters = append(doc.Filters, f.v2())
	}
	return doc
}

func (c codecDoc) v2() map[string]any {
	doc := map[string]any{"id": c.name}
	maps.Copy(doc, c.config)
	return doc
}

// v2DType is numpy's name of a type.
func v2DType(d nd.DType, big bool) string {
	kind := "f"
	switch {
	case d == nd.Bool:
		kind = "b"
	case d.Signed():
		kind = "i"
	case d.Unsigned():
		kind = "u"
	case d.Complex():
		kind = "c"
	}
	order := "<"
	if big {
		order = ">"
	}
	if d.Size() == 1 {
		order = "|"
	}
	return fmt.Sprintf("%s%s%d", order, kind, d.Size())
}

func (a *Array) fill() any {
	switch {
	case a.DType == nd.Bool:
		return false
	case a.DType.Complex() && a.Format == 3:
		return []int{0, 0}
	}
	return 0
}

// transposeOrder reads the order of a transpose; without a configuration all axes
// are reversed.
func transposeOrder(config json.RawMessage, rank int) ([]int, error) {
	if config == nil {
		return reversedAxes(rank), nil
	}
	var c struct {
		Order []int `json:"order"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(c.Order))
	for i, axis := range sorted {
		if axis != i {
			return nil, fmt.Errorf("order %v is not a permutation", c.Order)
		}
	}
	if len(sorted) != rank {
		return nil, fmt.Errorf("order %v does not have %d axes", c.Order, rank)
	}
	return c.Order, nil
}

func reversedAxes(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = rank - 1 - i
	}
	return order
}

// orEmpty keeps JSON from writing null for the shape of a 0-d array.
func orEmpty(shape []int64) []int64 {
	if shape == nil {
		return []int64{}
	}
	return shape
}
