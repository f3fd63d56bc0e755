package zarr

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// The canonical form has its own types, so that a change of Array does not
// change fingerprints unnoticed.
type (
	canonicalArray struct {
		Shape  []int64          `json:"shape"`
		DType  string           `json:"dtype"`
		Unit   string           `json:"unit,omitempty"`
		Fill   string           `json:"fill"` // hex, little-endian
		Levels []canonicalLevel `json:"levels"`
	}
	canonicalLevel struct {
		Chunk   []int64          `json:"chunk"`
		Order   []int            `json:"order"`
		Filters []canonicalCodec `json:"filters,omitempty"`
		Endian  string           `json:"endian,omitempty"`
		Bytes   []canonicalCodec `json:"bytes,omitempty"`
		Index   *canonicalIndex  `json:"index,omitempty"`
	}
	canonicalIndex struct {
		Endian   string `json:"endian"`
		Order    []int  `json:"order,omitempty"`
		Checksum bool   `json:"crc32c"`
		Location string `json:"location"`
	}
	canonicalCodec struct {
		Name   string          `json:"name"`
		Config json.RawMessage `json:"config,omitempty"`
	}
)

// Canonical is what fingerprints know of an array: JSON of shape, grid, type,
// codecs and fill value that does not depend on how the metadata spell them, nor
// on keys, names and attributes. Its form is frozen: saved states of epochs
// depend on it.
func (a *Array) Canonical() []byte {
	c := canonicalArray{
		Shape: a.Shape,
		DType: a.DType.DType.Name(),
		Fill:  hex.EncodeToString(a.Fill),
	}
	if a.DType.Time != 0 {
		c.Unit = string(rune(a.DType.Time)) + "8[" + a.DType.Unit + "]"
	}
	for i := range a.Levels {
		c.Levels = append(c.Levels, a.canonicalLevel(&a.Levels[i]))
	}
	return encode(c)
}

func (a *Array) canonicalLevel(l *Level) canonicalLevel {
	c := canonicalLevel{
		Chunk:   l.Chunk,
		Order:   l.Order,
		Filters: canonicalCodecs(l.Filters),
		Bytes:   canonicalCodecs(l.Bytes),
	}
	switch {
	case l.Index != nil:
		c.Index = &canonicalIndex{endianName(l.Index.Big), l.Index.Order, l.Index.Checksum, "end"}
		if l.Index.AtStart {
			c.Index.Location = "start"
		}
	case a.DType.Size() > 1 || l.Filters != nil:
		c.Endian = endianName(l.Big)
	}
	return c
}

func endianName(big bool) string {
	if big {
		return "big"
	}
	return "little"
}

func canonicalCodecs(codecs []Codec) []canonicalCodec {
	var out []canonicalCodec
	for _, c := range codecs {
		out = append(out, canonicalCodec{c.Name, canonicalConfig(c.Config)})
	}
	return out
}

// canonicalConfig sorts the members of a configuration; numbers keep their
// spelling. An empty configuration is the same as none.
func canonicalConfig(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil || len(v) == 0 {
		return nil
	}
	return encode(v)
}

// encode is compact JSON with sorted maps and without HTML escapes.
func encode(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil // not reachable: all values come from valid JSON
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
