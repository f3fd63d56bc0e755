package zarr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Limits on metadata, so that a hostile document costs little. Real array
// documents have a few KB; consolidated ones of large stores a few MB.
const (
	// MaxDocument is the largest array or attributes document in bytes.
	MaxDocument = 16 << 20
	// MaxGroupDocument is the largest group document, which may hold the
	// consolidated metadata of a whole hierarchy.
	MaxGroupDocument = 128 << 20

	maxRank    = 32      // as numpy
	maxNesting = 128     // of JSON values
	maxCodecs  = 256     // of one list
	maxLevels  = 8       // of shards within shards
	maxExtent  = 1 << 62 // of a shape or chunk: chunk ends then fit an int64
	maxNumber  = 1024    // characters of a number
)

func corrupt(format string, args ...any) error {
	return nd.Errorf(nd.ErrCorrupt, format, args...)
}

func unsupported(format string, args ...any) error {
	return nd.Errorf(nd.ErrUnsupported, format, args...)
}

// parser collects the notes of one document.
type parser struct{ notes []string }

func (p *parser) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// document checks size and nesting and makes valid JSON of what Python's json
// module writes: bare NaN and Infinity become strings. Attributes of v2 arrays
// hold them often ("missing_value": NaN).
func (p *parser) document(doc []byte, limit int) (json.RawMessage, error) {
	if len(doc) > limit {
		return nil, unsupported("metadata of %d bytes: at most %d are read", len(doc), limit)
	}
	doc = bytes.TrimPrefix(doc, []byte("\xef\xbb\xbf"))
	bare, err := scan(doc)
	if err != nil {
		return nil, err
	}
	if len(bare) > 0 {
		doc = quote(doc, bare)
		p.note("bare NaN or Infinity, not JSON, read as a string")
	}
	if !json.Valid(doc) {
		var v any
		return nil, corrupt("metadata: %w", json.Unmarshal(doc, &v))
	}
	return slices.Clone(doc), nil
}

// outerString is the value of a member of the outermost object that is a string,
// nil where no member is spelled so: one look at the bytes, which checks no
// grammar. The last of several counts, as in package json.
func outerString(doc []byte, name string) (value []byte) {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			stop := endOfString(doc, i)
			if depth == 1 && stop < len(doc) && string(doc[i+1:stop]) == name {
				if v := stringAfterColon(doc[stop+1:]); v != nil {
					value = v
				}
			}
			i = stop
		}
	}
	return value
}

func stringAfterColon(doc []byte) []byte {
	const space = " \t\r\n"
	doc, ok := bytes.CutPrefix(bytes.TrimLeft(doc, space), []byte(":"))
	doc = bytes.TrimLeft(doc, space)
	if !ok || len(doc) == 0 || doc[0] != '"' {
		return nil
	}
	stop := endOfString(doc, 0)
	if stop >= len(doc) {
		return nil
	}
	return doc[1:stop]
}

type literal struct{ start, stop int }

// scan finds the bare NaN and Infinity literals outside strings and bounds the
// nesting. It does not check the grammar.
func scan(doc []byte) (bare []literal, err error) {
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = endOfString(doc, i)
		case '{', '[':
			if depth++; depth > maxNesting {
				return nil, unsupported("metadata nested deeper than %d", maxNesting)
			}
		case '}', ']':
			depth--
		case 'N', 'I', '-':
			if n := bareLiteral(doc[i:]); n > 0 {
				bare = append(bare, literal{i, i + n})
				i += n - 1
			}
		}
	}
	return bare, nil
}

// endOfString is the index of the quote that ends the string that starts at i,
// or of the last byte.
func endOfString(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(doc)
}

func bareLiteral(doc []byte) int {
	for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(doc, []byte(name)) {
			return len(name)
		}
	}
	return 0
}

func quote(doc []byte, bare []literal) []byte {
	out := make([]byte, 0, len(doc)+2*len(bare))
	last := 0
	for _, l := range bare {
		out = append(out, doc[last:l.start]...)
		out = append(out, '"')
		out = append(out, doc[l.start:l.stop]...)
		out = append(out, '"')
		last = l.stop
	}
	return append(out, doc[last:]...)
}

// object is a JSON object. Member names are compared exactly: decoding into a
// struct would also take "Shape" for "shape".
type object map[string]json.RawMessage

func parseObject(what string, raw json.RawMessage) (object, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, corrupt("%s is %s, expected an object", what, excerpt(raw))
	}
	return o, nil
}

// absent reports whether a member is missing or null.
func absent(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// excerpt is raw cut to a length that fits a message.
func excerpt(raw json.RawMessage) string {
	const limit = 60
	if len(raw) == 0 {
		return "absent"
	}
	if len(raw) <= limit {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:limit]), "") + "…"
}

// require names the members that a document lacks.
func require(what string, o object, names ...string) error {
	var missing []string
	for _, name := range names {
		if _, ok := o[name]; !ok {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return corrupt("%s lacks %s", what, strings.Join(missing, ", "))
	}
	return nil
}

func parseString(what string, raw json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", corrupt("%s is %s, expected a string", what, excerpt(raw))
	}
	return *s, nil
}

func parseList(what string, raw json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, corrupt("%s is %s, expected a list", what, excerpt(raw))
	}
	return list, nil
}

// parseInts reads a list of int64; a null, a fraction or a larger number is an
// error.
func parseInts(what string, raw json.RawMessage) ([]int64, error) {
	var list []*int64
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, corrupt("%s is %s, expected a list of integers below 2^63", what, excerpt(raw))
	}
	ints := make([]int64, len(list))
	for i, p := range list {
		if p == nil {
			return nil, corrupt("%s has null at index %d, expected an integer", what, i)
		}
		ints[i] = *p
	}
	return ints, nil
}

// parseExtents reads a shape or a chunk shape, whose extents are at least low.
func parseExtents(what string, raw json.RawMessage, low int64) ([]int64, error) {
	extents, err := parseInts(what, raw)
	if err != nil {
		return nil, err
	}
	if len(extents) > maxRank {
		return nil, corrupt("%s has rank %d, at most %d is possible", what, len(extents), maxRank)
	}
	for i, n := range extents {
		if n < low || n > maxExtent {
			return nil, corrupt("%s has extent %d on axis %d, expected %d to 2^62", what, n, i, low)
		}
	}
	return extents, nil
}
