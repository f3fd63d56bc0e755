package codec

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/nd"
	"github.com/klauspost/compress/snappy"
)

// blosc reads frames of blosc version 1. Its settings are the encoder's: the
// header of each frame says all that decoding needs, and differs from chunk to
// chunk.
type blosc struct {
	cname     string
	clevel    int
	shuffle   bloscFilter
	typesize  int
	blocksize int
}

func newBlosc(set settings) (Codec, error) {
	b := blosc{
		clevel:    set.hint("clevel", 5),
		typesize:  set.hint("typesize", 1),
		blocksize: set.hint("blocksize", 0),
	}
	if ok, err := set.get("cname", &b.cname); err != nil || !ok {
		b.cname = "lz4"
	}
	b.shuffle = bloscShuffleSetting(set, b.typesize)
	return b, nil
}

// bloscShuffleSetting reads v3's names and v2's numbers, of which -1 picks by
// the size of an element.
func bloscShuffleSetting(set settings, typesize int) bloscFilter {
	var name string
	if ok, err := set.get("shuffle", &name); ok && err == nil {
		return map[string]bloscFilter{"shuffle": bloscBytes, "bitshuffle": bloscBits}[name]
	}
	n := set.hint("shuffle", 1)
	switch {
	case n == 1 || n == -1 && typesize > 1:
		return bloscBytes
	case n == 2 || n == -1:
		return bloscBits
	}
	return bloscNoFilter
}

func (blosc) Name() string { return "blosc" }

// Decode returns a part of src for a frame of plain bytes.
func (blosc) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	f, err := parseBlosc(src)
	if err != nil {
		return nil, failed("blosc", len(dst), err)
	}
	if f.nbytes > len(dst) {
		return nil, tooLong("blosc", len(dst))
	}
	if f.plain() {
		return f.data[bloscHeader:][:f.nbytes], nil
	}
	dst = dst[:f.nbytes]
	for i := range f.blocks() {
		start, stop := f.block(i)
		if err := f.decodeBlock(dst[start:stop], i, s); err != nil {
			return nil, nd.Errorf(kindOf(err), "blosc: block %d of %d: %w", i, f.blocks(), err)
		}
	}
	return dst, nil
}

// decodeBlock decodes block i to dst, which has its length.
func (f *bloscFrame) decodeBlock(dst []byte, i int, s *Scratch) error {
	encoded, err := f.encoded(i)
	if err != nil {
		return err
	}
	filter := f.filter(len(dst))
	shuffled := dst
	if filter != bloscNoFilter {
		s.block = grown(s.block, len(dst))
		shuffled = s.block
	}
	if err := f.decodeStreams(shuffled, encoded, s); err != nil {
		return err
	}
	switch filter {
	case bloscBytes:
		Unshuffle(dst, shuffled, f.typesize)
	case bloscBits:
		BitUnshuffle(dst, shuffled, f.typesize)
	}
	return nil
}

func (f *bloscFrame) decodeStreams(dst, encoded []byte, s *Scratch) error {
	n := f.streams(len(dst))
	if len(dst)%n != 0 {
		return fmt.Errorf("%d bytes do not split into %d streams", len(dst), n)
	}
	raw := len(dst) / n
	for ; len(dst) > 0; dst = dst[raw:] {
		stream, rest, err := nextStream(encoded)
		if err != nil {
			return err
		}
		if len(stream) == raw {
			copy(dst, stream)
		} else if err := decodeBloscStream(f.compressor, dst[:raw], stream, s); err != nil {
			return err
		}
		encoded = rest
	}
	return nil
}

// decodeBloscStream decodes a stream that must fill dst.
func decodeBloscStream(compressor int, dst, stream []byte, s *Scratch) (err error) {
	var n int
	ok := true
	switch compressor {
	case bloscBloscLZ:
		n, ok = decodeBloscLZ(dst, stream)
	case bloscLZ4:
		n, ok = decodeLZ4(dst, stream)
	case bloscSnappy:
		n, ok = decodeSnappy(dst, stream)
	case bloscZlib:
		n, err = decodeZlib(dst, stream, &s.inflater)
	case bloscZstd:
		n, err = decodeZstd(dst, stream, s)
	}
	if !ok {
		err = errors.New("malformed stream")
	}
	if err == nil && n == len(dst) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("got %d bytes, expected %d", n, len(dst))
	}
	return fmt.Errorf("%s: %w", bloscFormat(compressor), err)
}

func bloscFormat(compressor int) string {
	return [bloscFormats]string{"blosclz", "lz4", "snappy", "zlib", "zstd"}[compressor]
}

func decodeSnappy(dst, stream []byte) (n int, ok bool) {
	n, err := snappy.DecodedLen(stream)
	if err != nil || n != len(dst) {
		return 0, false // checked first: a longer result would be allocated
	}
	out, err := snappy.DecodeStrict(dst, stream)
	return len(out), err == nil
}
