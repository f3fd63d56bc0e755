package zarr

import (
	"encoding/json"
	"strconv"
)

// KeyEncoding makes store keys from grid coordinates.
type KeyEncoding struct {
	// V2 selects "1.2" and, for an array without axes, "0"; otherwise the keys
	// are "c/1/2" and "c".
	V2 bool
	// Separator is '/' or '.'.
	Separator byte
}

// String is "default /" or "v2 .".
func (k KeyEncoding) String() string {
	name := "default "
	if k.V2 {
		name = "v2 "
	}
	return name + string(rune(k.Separator))
}

// KeyEncodings is every encoding that writers use.
func KeyEncodings() [4]KeyEncoding {
	return [...]KeyEncoding{{false, '/'}, {false, '.'}, {true, '.'}, {true, '/'}}
}

// Key is the store key, relative to the array, of the object at a coordinate.
func (k KeyEncoding) Key(coord []int64) string {
	var buf [64]byte
	return string(k.append(buf[:0], coord))
}

func (k KeyEncoding) append(dst []byte, coord []int64) []byte {
	if !k.V2 {
		dst = append(dst, 'c')
	} else if len(coord) == 0 {
		return append(dst, '0')
	}
	for i, c := range coord {
		if i > 0 || !k.V2 {
			dst = append(dst, k.Separator)
		}
		dst = strconv.AppendInt(dst, c, 10)
	}
	return dst
}

// Key is the store key, relative to the array, of the object at a coordinate of
// the outermost grid.
func (a *Array) Key(coord []int64) string { return a.Keys.Key(coord) }

// AppendKey is Key into a buffer.
func (a *Array) AppendKey(dst []byte, coord []int64) []byte {
	return a.Keys.append(dst, coord)
}

// WithKeys is a copy of a that uses other keys, with a note. It is for stores
// whose files contradict their metadata.
func (a *Array) WithKeys(keys KeyEncoding, note string) *Array {
	b := *a
	b.Keys = keys
	b.Notes = append(append([]string(nil), a.Notes...), note)
	return &b
}

// parseKeyEncoding reads chunk_key_encoding of v3 metadata.
func (p *parser) parseKeyEncoding(raw json.RawMessage) (KeyEncoding, error) {
	e, err := p.parseExtension("chunk_key_encoding", raw)
	if err != nil {
		return KeyEncoding{}, err
	}
	k := KeyEncoding{Separator: '/'}
	switch e.name {
	case "default":
	case "v2":
		k = KeyEncoding{V2: true, Separator: '.'}
	default:
		return k, unsupported("chunk key encoding %q", e.name)
	}
	settings, err := e.only("chunk key encoding", "separator")
	if err != nil {
		return k, err
	}
	if separator := settings["separator"]; !absent(separator) {
		k.Separator, err = parseSeparator("chunk_key_encoding separator", separator)
	}
	return k, err
}

func parseSeparator(what string, raw json.RawMessage) (byte, error) {
	s, err := parseString(what, raw)
	if err != nil {
		return 0, err
	}
	if s != "." && s != "/" {
		return 0, corrupt(`%s is %q, expected "." or "/"`, what, s)
	}
	return s[0], nil
}
