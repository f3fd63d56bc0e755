package codec

import (
	"encoding/json"

	"github.com/headrace/headrace/nd"
)

// Codec is one stage of a chain of codecs, bound to its configuration. It is
// immutable and safe for concurrent use; what a call needs beyond its arguments
// lives in the caller's Scratch.
type Codec interface {
	// Name is the codec's name in zarr metadata.
	Name() string

	// Decode turns the encoded src into its original bytes. The result is
	// dst[:n], or a part of src where decoding only takes something off. A
	// result longer than len(dst) is an error of kind nd.ErrCorrupt: dst is the
	// caller's limit. src is never changed. No allocation after warm-up.
	Decode(dst, src []byte, s *Scratch) ([]byte, error)

	// Encode appends the encoded form of src to dst. It is for tests and sample
	// data: no promise of speed.
	Encode(dst, src []byte) ([]byte, error)
}

// New makes the codec of the given name from its zarr configuration (v2: the
// whole compressor or filter object; v3: the configuration object, may be nil).
// An unknown name or a setting that headrace does not read is an error of kind
// nd.ErrUnsupported that names it.
func New(name string, config json.RawMessage) (Codec, error) {
	construct := constructor(name)
	if construct == nil {
		return nil, nd.Errorf(nd.ErrUnsupported, "codec %q: %s", name, whyNot(name))
	}
	set, err := parseSettings(name, config)
	if err != nil {
		return nil, err
	}
	return construct(set)
}

func constructor(name string) func(settings) (Codec, error) {
	switch name {
	case "zstd":
		return newZstd
	case "blosc":
		return newBlosc
	case "lz4":
		return newLZ4
	case "gzip":
		return newGzip
	case "zlib":
		return newZlib
	case "crc32c":
		return newCRC32C
	case "shuffle":
		return newShuffle
	case "delta":
		return newDelta
	case "fixedscaleoffset":
		return newFixedScaleOffset
	case "quantize":
		return newQuantize
	case "bitround":
		return newBitround
	case "packbits":
		return newPackbits
	case "astype":
		return newAstype
	}
	return nil
}

// whyNot tells codecs that zarr knows from names that nobody does.
func whyNot(name string) string {
	switch name {
	case "bz2", "lzma", "crc32", "adler32", "fletcher32", "jenkins_lookup3",
		"vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2",
		"zfp", "zfpy", "pcodec", "pcodec_codec", "jpeg", "jpeg2k", "jpegxl", "webp", "lerc",
		"cast_value", "scale_offset", "reshape", "squeeze", "categorize", "base64":
		return "known, but not read yet"
	case "pickle":
		return "refused: unpickling runs code from the data"
	}
	return "no such codec"
}
