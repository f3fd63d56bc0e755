package codec

import "github.com/headrace/headrace/nd"

// packbits is numcodecs' packbits: eight bools a byte, the first in the highest
// bit, behind a byte that counts the unused bits at the end. (The codec of the
// same name among the zarr v3 extensions packs from the lowest bit.)
type packbits struct{}

func newPackbits(set settings) (Codec, error) {
	for _, key := range []string{"padding_encoding", "first_bit", "last_bit"} {
		if _, there := set.members[key]; there {
			return nil, nd.Errorf(nd.ErrUnsupported, "codec packbits of the v3 extensions (setting %s)", key)
		}
	}
	return packbits{}, nil
}

func (packbits) Name() string { return "packbits" }

func (packbits) encodedSize(decoded int) int { return 1 + (decoded+7)/8 }

func (packbits) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	if len(src) == 0 || src[0] > 7 || len(src) == 1 && src[0] > 0 {
		return nil, nd.Errorf(nd.ErrCorrupt, "packbits: %d bytes with the count of unused bits %v", len(src), src[:min(1, len(src))])
	}
	unused, packed := int(src[0]), src[1:]
	n := 8*len(packed) - unused
	if n > len(dst) {
		return nil, tooLong("packbits", len(dst))
	}
	dst = dst[:n]
	for i := range dst {
		dst[i] = packed[i/8] >> (7 - i%8) & 1
	}
	return dst, nil
}

func (packbits) Encode(dst, src []byte) ([]byte, error) {
	packed := make([]byte, (len(src)+7)/8)
	for i, b := range src {
		packed[i/8] |= truth(b) << (7 - i%8)
	}
	return append(append(dst, byte(8*len(packed)-len(src))), packed...), nil
}
