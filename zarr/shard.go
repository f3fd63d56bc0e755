package zarr

import (
	"encoding/json"

	"github.com/headrace/headrace/nd"
)

// shard reads a sharding_indexed codec and the chain inside it.
func (c *chainReader) shard(level Level, e extension) error {
	if level.Filters != nil {
		return unsupported("codec %q before sharding_indexed", level.Filters[0].Name)
	}
	settings := e.settings()
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

// index reads index_location and index_codecs.
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
	return c.indexCodecs(ix, raw)
}

func (c *chainReader) indexCodecs(ix *Index, raw json.RawMessage) error {
	codecs, at, err := c.split("index_codecs", raw)
	if err != nil {
		return err
	}
	if codecs[at].name == "sharding_indexed" {
		return unsupported("sharding_indexed in index_codecs")
	}
	if ix.Order, err = indexOrder(codecs[:at], len(ix.Counts)+1); err != nil {
		return err
	}
	for _, e := range codecs[at+1:] {
		if e.name != "crc32c" || ix.Checksum {
			return unsupported("codec %q in index_codecs: the size of the index must be fixed (bytes, one crc32c)", e.name)
		}
		if location := e.settings()["location"]; !absent(location) && string(location) != `"end"` {
			return unsupported("codec %q in index_codecs with location %s", e.name, excerpt(location))
		}
		ix.Checksum = true
	}
	ix.Big, err = c.endian(codecs[at], "the uint64 of an index", false)
	return err
}

// indexOrder adds up the transposes of an index, in which the axis of the pairs
// takes part; nil if they change nothing.
func indexOrder(codecs []extension, rank int) ([]int, error) {
	order := identity(rank)
	for _, e := range codecs {
		if e.name != "transpose" {
			return nil, unsupported("codec %q in index_codecs", e.name)
		}
		t, err := transposeOrder(e, rank)
		if err != nil {
			return nil, err
		}
		order = compose(order, t)
	}
	if isIdentity(order) {
		return nil, nil
	}
	return order, nil
}
