package zarr

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
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
	switch name {
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
	if level.Big {
		if err := sameTypes(level.Filters); err != nil {
			return err
		}
	}
	c.levels = append(c.levels, level)
	return nil
}

// sameTypes refuses filters that change the element type before a big-endian
// bytes codec. The swap would have to be that of the changed type; zarr-python
// writes such chunks and reads them wrong, so none can be in use.
func sameTypes(filters []Codec) error {
	for _, f := range filters {
		o := extension{config: f.Config}.settings()
		changed := !absent(o["astype"]) && string(o["astype"]) != string(o["dtype"])
		if changed || f.Name == "astype" || f.Name == "cast_value" {
			return unsupported("big-endian bytes after codec %q, which changes the type", f.Name)
		}
	}
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
	if len(list) > maxCodecs {
		return nil, 0, unsupported("%s: a list of %d, at most %d are read", what, len(list), maxCodecs)
	}
	at = -1
	for i, raw := range list {
		e, err := c.parseExtension("codec", raw)
		if err != nil {
			return nil, 0, err
		}
		if err := checkSettings(e); err != nil {
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
// array->array codecs as filters. Filters that see single elements commute with
// a transpose. For the others the order of the elements matters, and zarr-python,
// which is where they come from, stores a transposed chunk in an order that it
// does not read back: they are refused beside a transpose.
func (c *chainReader) arrayCodecs(level *Level, codecs []extension) error {
	for _, e := range codecs {
		if e.name != "transpose" {
			level.Filters = append(level.Filters, e.codec())
			continue
		}
		t, err := transposeOrder(e, len(level.Order))
		if err != nil {
			return err
		}
		level.Order = compose(level.Order, t)
	}
	for _, f := range level.Filters {
		if !elementwise(f.Name) && !isIdentity(level.Order) {
			return unsupported("codec %q together with a transpose", f.Name)
		}
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
