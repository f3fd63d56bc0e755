package zarr

import (
	"encoding/json"
	"strings"
)

// parseV2 reads a .zarray. Members that are not known are ignored, as the v2
// specification asks: netcdf-c and GDAL write some.
func (p *parser) parseV2(doc object) (*Array, error) {
	if err := require(".zarray", doc, "shape", "chunks", "dtype"); err != nil {
		return nil, err
	}
	a := &Array{Format: 2}
	var err error
	if a.Shape, err = parseExtents("shape", doc["shape"], 0); err != nil {
		return nil, err
	}
	chunk, err := parseExtents("chunks", doc["chunks"], 1)
	if err != nil {
		return nil, err
	}
	if len(chunk) != len(a.Shape) {
		return nil, corrupt("chunks %v has rank %d, shape has rank %d", chunk, len(chunk), len(a.Shape))
	}
	if a.DType, err = parseDTypeV2(doc["dtype"]); err != nil {
		return nil, err
	}
	if a.Keys, err = keysV2(doc["dimension_separator"]); err != nil {
		return nil, err
	}
	leaf := Level{Chunk: chunk, Big: a.DType.Big}
	if leaf.Order, err = p.orderV2(doc["order"], len(chunk)); err != nil {
		return nil, err
	}
	if err := p.codecsV2(&leaf, doc); err != nil {
		return nil, err
	}
	a.Levels = []Level{leaf}
	a.Fill, err = fillReader{p, a.DType, false}.fill(doc["fill_value"])
	return a, err
}

func keysV2(raw json.RawMessage) (KeyEncoding, error) {
	if absent(raw) {
		return KeyEncoding{V2: true, Separator: '.'}, nil
	}
	separator, err := parseSeparator("dimension_separator", raw)
	return KeyEncoding{V2: true, Separator: separator}, err
}

// orderV2 is the storage order of order "C" or "F". Chunk keys do not depend on
// it.
func (p *parser) orderV2(raw json.RawMessage, rank int) ([]int, error) {
	switch {
	case absent(raw):
		p.note("order is absent, C taken")
		return identity(rank), nil
	case string(raw) == `"C"`:
		return identity(rank), nil
	case string(raw) == `"F"`:
		return reversal(rank), nil
	}
	return nil, corrupt(`order is %s, expected "C" or "F"`, excerpt(raw))
}

// codecsV2 reads filters and compressor. The encoder applies the filters in
// list order, then the compressor.
func (p *parser) codecsV2(leaf *Level, doc object) error {
	if raw := doc["filters"]; !absent(raw) {
		list, err := parseList("filters", raw)
		if err != nil {
			return err
		}
		for _, raw := range list {
			c, err := codecV2("filter", raw)
			if err != nil {
				return err
			}
			leaf.Filters = append(leaf.Filters, c)
		}
	}
	raw, ok := doc["compressor"]
	if !ok {
		p.note("compressor is absent, none taken")
	}
	if absent(raw) {
		return nil
	}
	c, err := codecV2("compressor", raw)
	if err != nil {
		return err
	}
	leaf.Bytes = []Codec{c}
	return nil
}

// codecV2 reads a codec in numcodecs' form: one object that holds the id and
// the settings.
func codecV2(what string, raw json.RawMessage) (Codec, error) {
	o, err := parseObject(what, raw)
	if err != nil {
		return Codec{}, err
	}
	id, err := parseString(what+" id", o["id"])
	if err != nil {
		return Codec{}, err
	}
	if id == "" {
		return Codec{}, corrupt("%s has an empty id", what)
	}
	return Codec{Name: strings.TrimPrefix(id, "numcodecs."), Config: raw}, nil
}
