package zarr

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
)

// kind is the part of a chain that a codec belongs to.
type kind int

const (
	unknown kind = iota
	arrayToArray
	arrayToBytes
	bytesToBytes
	reshaping // array->array codecs that change the shape
)

// kindOf is the place that a codec's name asks for in a v3 chain. Names that are
// not listed are judged by their place: package codec knows which it can decode.
func kindOf(name string) kind {
	switch strings.TrimPrefix(name, "numcodecs.") {
	case "transpose", "delta", "fixedscaleoffset", "quantize", "bitround", "astype",
		"scale_offset", "cast_value":
		return arrayToArray
	case "bytes", "endian", "sharding_indexed", "vlen-utf8", "vlen-bytes", "vlen-array",
		"zfp", "zfpy", "pcodec", "json2", "pickle", "msgpack2":
		return arrayToBytes
	case "blosc", "gzip", "zlib", "zstd", "lz4", "bz2", "lzma", "crc32c", "crc32",
		"adler32", "fletcher32", "jenkins_lookup3":
		return bytesToBytes
	case "reshape", "squeeze", "conditional":
		return reshaping
	case "packbits":
		// numcodecs.packbits is array->array and becomes a filter; the extension
		// of the bare name is another codec, array->bytes.
		if name == "packbits" {
			return unknown
		}
		return arrayToArray
	}
	return unknown
}

// elementwise reports whether a filter treats each element by itself, so that
// it does not matter whether a transpose comes before or after it.
func elementwise(name string) bool {
	switch strings.TrimPrefix(name, "numcodecs.") {
	case "fixedscaleoffset", "quantize", "bitround", "astype", "scale_offset", "cast_value":
		return true
	}
	return false
}

// chainReader walks a v3 codec list from the array down to the leaf and appends
// a level for each nesting.
type chainReader struct {
	*parser
	dtype  DType
	levels []Level
}

// read reads the codecs of chunks of the given extents (array axes) that reach
// the chain in the given storage order.
func (c *chainReader) read(raw json.RawMessage, chunk []int64, order []int) error {
	if len(c.levels) == maxLevels {
		return unsupported("shards nested deeper than %d", maxLevels)
	}
	codecs, at, err := c.split("codecs", raw)
	if err != nil {
		return err
	}
	level := Level{Chunk: chunk, Order: order}
	if err := c.arrayCodecs(&level, codecs[:at]); err != nil {
		return err
	}
	for _, e := range codecs[at+1:] {
		level.Bytes = append(level.Bytes, e.codec())
	}
	if codecs[at].name == "sharding_indexed" {
		return c.shard(level, codecs[at])
	}
	// Only the filters know the type that they leave to the bytes codec.
	filtered := level.Filters != nil
	if level.Big, err = c.endian(codecs[at], c.dtype.Name, filtered || c.dtype.Size() == 1); err != nil {
		return err
	}
	level.Big = level.Big && (filtered || c.dtype.Size() > 1)
	c.levels = append(c.levels, level)
	return nil
}

// codec is the extension as a Codec.
func (e extension) codec() Codec {
	return Codec{Name: strings.TrimPrefix(e.name, "numcodecs."), Config: e.config}
}

// split parses a codec list and finds its array->bytes codec. Codecs before it
// are array->array, codecs after it bytes->bytes; a codec that is known to
// belong elsewhere makes the list corrupt.
func (c *chainReader) split(what string, raw json.RawMessage) (codecs []extension, at int, err error) {
	list, err := parseList(what, raw)
	if err != nil {
		return nil, 0, err
	}
	at = -1
	for i, raw := range list {
		e, err := c.parseExtension("codec", raw)
		if err != nil {
			return nil, 0, err
		}
		codecs = append(codecs, e)
		if kindOf(e.name) != arrayToBytes {
			continue
		}
		if at >= 0 {
			return nil, 0, corrupt("%s: both %q and %q turn arrays into bytes", what, codecs[at].name, e.name)
		}
		at = i
	}
	if at < 0 {
		return nil, 0, noArrayToBytes(what, codecs)
	}
	switch name := codecs[at].name; name {
	case "bytes", "endian", "sharding_indexed":
	default:
		return nil, 0, unsupported("array->bytes codec %q", name)
	}
	return codecs, at, checkPlaces(what, codecs, at)
}

// noArrayToBytes says what is wrong with a list without an array->bytes codec:
// perhaps there is one that headrace does not know.
func noArrayToBytes(what string, codecs []extension) error {
	for _, e := range codecs {
		if kindOf(e.name) == unknown {
			return unsupported("codec %q", e.name)
		}
	}
	return corrupt("%s has no array->bytes codec", what)
}

func checkPlaces(what string, codecs []extension, at int) error {
	for i, e := range codecs {
		switch k := kindOf(e.name); {
		case k == reshaping:
			return unsupported("codec %q", e.name)
		case k == bytesToBytes && i < at, k == arrayToArray && i > at:
			return corrupt("%s: codec %q on the wrong side of %q", what, e.name, codecs[at].name)
		}
	}
	return nil
}

// arrayCodecs folds transposes into the order of the level and keeps the other
// array->array codecs as filters.
func (c *chainReader) arrayCodecs(level *Level, codecs []extension) error {
	fixed := "" // a filter that needs its elements in the order it found them
	for _, e := range codecs {
		if e.name != "transpose" {
			if !elementwise(e.name) {
				fixed = e.name
			}
			level.Filters = append(level.Filters, e.codec())
			continue
		}
		t, err := transposeOrder(e, len(level.Order))
		if err != nil {
			return err
		}
		if fixed != "" && !isIdentity(t) {
			return unsupported("codec transpose after %q", fixed)
		}
		level.Order = compose(level.Order, t)
	}
	return nil
}

// transposeOrder reads the order of a transpose of the given rank. "C" and "F"
// are older spellings of the identity and the reversal.
func transposeOrder(e extension, rank int) ([]int, error) {
	raw := e.settings()["order"]
	switch string(raw) {
	case `"C"`:
		return identity(rank), nil
	case `"F"`:
		return reversal(rank), nil
	}
	axes, err := parseInts("transpose order", raw)
	if err != nil {
		return nil, err
	}
	if len(axes) != rank {
		return nil, corrupt("transpose order %v is not a permutation of %d axes", axes, rank)
	}
	order := make([]int, rank)
	seen := make([]bool, rank)
	for i, axis := range axes {
		if axis < 0 || axis >= int64(rank) || seen[axis] {
			return nil, corrupt("transpose order %v is not a permutation of %d axes", axes, rank)
		}
		seen[axis] = true
		order[i] = int(axis)
	}
	return order, nil
}

func identity(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = i
	}
	return order
}

func reversal(rank int) []int {
	order := identity(rank)
	slices.Reverse(order)
	return order
}

func isIdentity(order []int) bool {
	for i, axis := range order {
		if i != axis {
			return false
		}
	}
	return true
}

// compose applies a transpose to what already has the given order: the new axis
// i is the old axis t[i], which is axis order[t[i]] of the array.
func compose(order, t []int) []int {
	out := make([]int, len(t))
	for i, axis := range t {
		out[i] = order[axis]
	}
	return out
}

// endian reads the byte order of a bytes codec. It may be missing only where
// there may be none.
func (c *chainReader) endian(e extension, dtype string, optional bool) (big bool, err error) {
	raw := e.settings()["endian"]
	if absent(raw) {
		if !optional {
			return false, corrupt("codec %q has no endian, which %s needs", e.name, dtype)
		}
		return false, nil
	}
	switch string(bytes.TrimSpace(raw)) {
	case `"little"`:
		return false, nil
	case `"big"`:
		return true, nil
	}
	return false, corrupt(`codec %q: endian is %s, expected "little" or "big"`, e.name, excerpt(raw))
}

// shard reads a sharding_indexed codec and the chain inside it.
func (c *chainReader) shard(level Level, e extension) error {
	if level.Filters != nil {
		return unsupported("codec %q before sharding_indexed", level.Filters[0].Name)
	}
	settings := e.settings()
	for name := range settings {
		switch name {
		case "chunk_shape", "codecs", "index_codecs", "index_location":
		default:
			return unsupported("sharding_indexed with setting %q", name)
		}
	}
	inner, err := parseExtents("sharding_indexed chunk_shape", settings["chunk_shape"], 1)
	if err != nil {
		return err
	}
	index := &Index{}
	if index.Counts, err = counts(level, inner); err != nil {
		return err
	}
	if err := c.index(index, settings); err != nil {
		return err
	}
	level.Index = index
	c.levels = append(c.levels, level)
	chunk := make([]int64, len(inner))
	for i, axis := range level.Order {
		chunk[axis] = inner[i]
	}
	return c.read(settings["codecs"], chunk, level.Order)
}

// counts is the number of inner chunks along each stored axis of a shard.
func counts(level Level, inner []int64) ([]int64, error) {
	if len(inner) != len(level.Chunk) {
		return nil, corrupt("sharding_indexed chunk_shape %v has rank %d, the array %d", inner, len(inner), len(level.Chunk))
	}
	n := make([]int64, len(inner))
	for i, axis := range level.Order {
		if level.Chunk[axis]%inner[i] != 0 {
			return nil, unsupported("sharding_indexed chunk_shape %v does not divide the shard %v (stored order %v)",
				inner, level.Chunk, level.Order)
		}
		n[i] = level.Chunk[axis] / inner[i]
	}
	if entries, ok := nd.Product(n); !ok || entries > maxExtent/entrySize {
		return nil, corrupt("sharding_indexed: a shard of %v inner chunks overflows", n)
	}
	return n, nil
}

// index reads index_location and index_codecs. The pairs axis takes part in a
// transpose of the index.
func (c *chainReader) index(ix *Index, settings object) error {
	if raw := settings["index_location"]; !absent(raw) {
		switch string(raw) {
		case `"start"`:
			ix.AtStart = true
		case `"end"`:
		default:
			return corrupt(`sharding_indexed index_location is %s, expected "start" or "end"`, excerpt(raw))
		}
	}
	raw := settings["index_codecs"]
	if absent(raw) {
		// zarr-python's default. If it is wrong, the checksum will tell.
		c.note("index_codecs absent, [bytes, crc32c] taken")
		ix.Checksum = true
		return nil
	}
	codecs, at, err := c.split("index_codecs", raw)
	if err != nil {
		return err
	}
	order := identity(len(ix.Counts) + 1)
	for _, e := range codecs[:at] {
		if e.name != "transpose" {
			return unsupported("codec %q in index_codecs", e.name)
		}
		t, err := transposeOrder(e, len(order))
		if err != nil {
			return err
		}
		order = compose(order, t)
	}
	if !isIdentity(order) {
		ix.Order = order
	}
	if codecs[at].name == "sharding_indexed" {
		return unsupported("sharding_indexed in index_codecs")
	}
	for _, e := range codecs[at+1:] {
		if e.name != "crc32c" || ix.Checksum {
			return unsupported("codec %q in index_codecs: the size of the index must be fixed (bytes, one crc32c)", e.name)
		}
		ix.Checksum = true
	}
	ix.Big, err = c.endian(codecs[at], "the uint64 of an index", false)
	return err
}
