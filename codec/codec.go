package codec

import "encoding/json"

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
func New(name string, config json.RawMessage) (Codec, error)
