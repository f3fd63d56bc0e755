package decode

import (
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// family is a group of kernels that decode chunks together.
type family int

const (
	plainFamily   family = iota // kernels.Decode
	inflateFamily               // kernels.Inflate
	zstdFamily                  // kernels.ZstdKernels
	families
)

// method is what there is to know of one.
type method struct {
	name   string
	family family
	blosc  bool
}

// methods are those that a kernel decodes, by number.
var methods = [...]method{
	kernels.LZ4:       {"lz4", plainFamily, false},
	kernels.Blosc:     {"blosc", plainFamily, true},
	kernels.Unshuffle: {"shuffle", plainFamily, false},
	kernels.Copy:      {"plain bytes", plainFamily, false},
	kernels.Zstd:      {"zstd", zstdFamily, false},
	kernels.BloscZstd: {"blosc with zstd", zstdFamily, true},
	kernels.Zlib:      {"zlib", inflateFamily, false},
	kernels.Gzip:      {"gzip", inflateFamily, false},
	kernels.BloscZlib: {"blosc with zlib", inflateFamily, true},
}

// methodOf is the method of a number; false if no kernel decodes it.
func methodOf(number uint8) (method, bool) {
	if number == kernels.Host || int(number) >= len(methods) {
		return method{}, false
	}
	return methods[number], true
}

// shuffled reports whether the chunk is decoded by way of a second buffer.
func (c Chunk) shuffled() bool {
	return methods[c.Method].blosc || c.Typesize > 1 && c.Method != kernels.Unshuffle
}

// statusError is what a status of a chunk means.
func statusError(status uint32, number uint8) error {
	name := methods[number].name
	switch status {
	case kernels.OK:
		return nil
	case kernels.Corrupt:
		return nd.Errorf(nd.ErrCorrupt, "%s: the chunk breaks the format or a checksum, or decodes to another length", name)
	default:
		return nd.Errorf(nd.ErrUnsupported, "%s: a chunk that the GPU leaves to the host's decoder", name)
	}
}
