package kernels

// How a chunk is encoded, its Method. Which kernels take it follows from that: those of
// another family say Unsupported.
const (
	Host      uint8 = iota // what no kernel decodes
	LZ4                    // Decode: numcodecs' lz4, the decoded length in 4 bytes, then a block
	Blosc                  // Decode: a blosc 1 frame with lz4, lz4hc or blosclz inside
	Unshuffle              // Decode: the bytes of its elements apart, of size Typesize
	Copy                   // Decode: plain
	Zstd                   // ZstdKernels: one or more zstd frames (RFC 8878)
	BloscZstd              // ZstdKernels: a blosc 1 frame with zstd inside
	Zlib                   // Inflate: one stream (RFC 1950), or what Gzip is
	Gzip                   // Inflate: one or more members (RFC 1952), or what Zlib is
	BloscZlib              // Inflate: a blosc 1 frame with zlib inside
)

// A Family is the kernels that decode chunks of some methods together.
type Family uint8

const (
	DecodeFamily  Family = iota // Decode
	ZstdFamily                  // ZstdKernels
	InflateFamily               // Inflate
	Families                    // how many there are; the family of what no kernel decodes
)

// FamilyOf is the family of a method, Families for Host and what is no method.
func FamilyOf(method uint8) Family {
	switch method {
	case LZ4, Blosc, Unshuffle, Copy:
		return DecodeFamily
	case Zstd, BloscZstd:
		return ZstdFamily
	case Zlib, Gzip, BloscZlib:
		return InflateFamily
	}
	return Families
}

// NeedsScratch reports whether chunks of a method and a Typesize are decoded by way of
// Chunk.Scratch.
func NeedsScratch(method, typesize uint8) bool {
	switch method {
	case Blosc, BloscZstd, BloscZlib:
		return true
	case Unshuffle:
		return false
	}
	return typesize > 1
}
