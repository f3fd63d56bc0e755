package zarr

import (
	"encoding/json"
	"slices"

	"github.com/headrace/headrace/nd"
)

// Array is the meaning of one array's metadata, version 2 or 3. It holds no
// data and does no I/O; it is immutable once parsed.
type Array struct {
	Format int // 2 or 3
	Shape  []int64
	DType  DType
	Keys   KeyEncoding
	// Levels is the nesting of chunks, outermost first. Levels[0] is the grid of
	// stored objects, the last level the grid of chunks that the codecs decode
	// (the leaf). An array without sharding has one level.
	Levels []Level
	// Fill is one element, little-endian, of DType.Size bytes.
	Fill []byte
	// Attributes is the user's JSON object, nil if there is none.
	Attributes json.RawMessage
	// DimensionNames has an entry an axis, "" for null; nil if absent.
	DimensionNames []string
	// Notes lists what was accepted although the specification does not.
	Notes []string
}

// DType is the stored element type.
type DType struct {
	nd.DType
	// Name is the type as the metadata spell it: "uint16", "<u2", "<M8[ns]".
	Name string
	// Big says that v2 metadata ask for big-endian bytes. In v3 the byte order is
	// the leaf level's.
	Big bool
	// Unit is the unit of a datetime64 or timedelta64, "ns"; "" for other types.
	Unit string
	// Time is 'M' for datetime64, 'm' for timedelta64, 0 for other types.
	Time byte
}

// Leaf is the level whose chunks the codecs decode.
func (a *Array) Leaf() *Level { return &a.Levels[len(a.Levels)-1] }

// ChunkShape is the extent of a leaf chunk along each axis of the array.
func (a *Array) ChunkShape() []int64 { return slices.Clone(a.Leaf().Chunk) }

// ChunkBytes is the size of a leaf chunk in the array's type, after all codecs.
// Chunks at the edge of the array are full size too.
func (a *Array) ChunkBytes() int64 {
	n, _ := nd.Product(a.Leaf().Chunk) // the parser refuses an overflow
	return n * int64(a.DType.Size())
}

// WithAttributes is a copy of a with the attributes of a v2 .zattrs document.
// xarray's "_ARRAY_DIMENSIONS" become DimensionNames.
func (a *Array) WithAttributes(doc []byte) (*Array, error) {
	p := &parser{notes: slices.Clone(a.Notes)}
	attributes, err := p.document(doc, MaxDocument)
	if err != nil {
		return nil, err
	}
	object, err := parseObject("attributes", attributes)
	if err != nil {
		return nil, err
	}
	b := *a
	b.Attributes = attributes
	if names := xarrayDimensions(object); len(names) == len(a.Shape) {
		b.DimensionNames = names
	}
	b.Notes = p.notes
	return &b, nil
}

// xarrayDimensions is the list of axis names that xarray keeps in an attribute
// of v2 arrays, nil if it is absent or something else: attributes are the
// user's, they cannot be corrupt.
func xarrayDimensions(attributes object) []string {
	var names []string
	if json.Unmarshal(attributes["_ARRAY_DIMENSIONS"], &names) != nil {
		return nil
	}
	return names
}

// Level is one nesting of chunks.
type Level struct {
	// Chunk is the extent of a chunk of this level along each axis of the array.
	// Chunks lie on a regular grid from the origin; each level's chunk extents are
	// divisible by those of the level below.
	Chunk []int64
	// Order is the storage order: stored axis i is axis Order[i] of the array.
	// Every transpose down to this level is already in it, and v2 order "F".
	Order []int
	// Filters are the array->array codecs of the leaf that change values (v2
	// filters too), transposes excluded, in the order of encoding. Empty on levels
	// above the leaf.
	Filters []Codec
	// Big is the byte order of the leaf's elements.
	Big bool
	// Bytes are the bytes->bytes codecs of this level in the order of encoding.
	// Above the leaf they wrap a whole shard: it must be decoded before its index
	// can be read.
	Bytes []Codec
	// Index describes the shard index; nil on the leaf.
	Index *Index
}

// Index is the layout of a shard's index: one (offset, nbytes) pair of uint64
// for each chunk of the next level, in C order of the stored axes.
type Index struct {
	Counts   []int64 // chunks per shard along each stored axis (after Order)
	Order    []int   // a transpose among the index codecs, axes of Counts plus the pair axis; nil if none
	Big      bool
	Checksum bool // crc32c follows the table
	AtStart  bool
}

// Codec is a codec of the chain as named in the metadata, with any "numcodecs."
// prefix dropped. Its meaning is package codec's.
type Codec struct {
	Name   string
	Config json.RawMessage
}
