package decode

import (
	"fmt"

	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// methodNames are for messages.
var methodNames = [...]string{
	kernels.Host:      "the host's",
	kernels.LZ4:       "lz4",
	kernels.Blosc:     "blosc",
	kernels.Unshuffle: "shuffle",
	kernels.Copy:      "plain bytes",
	kernels.Zstd:      "zstd",
	kernels.BloscZstd: "blosc with zstd",
	kernels.Zlib:      "zlib",
	kernels.Gzip:      "gzip",
	kernels.BloscZlib: "blosc with zlib",
}

// MethodName names a method, kernels.Zstd and so on, as errors do.
func MethodName(method uint8) string {
	if int(method) < len(methodNames) {
		return methodNames[method]
	}
	return fmt.Sprintf("method %d", method)
}

// shuffled reports whether the chunk is decoded by way of a second buffer. Its Typesize is
// in range.
func (c *Chunk) shuffled() bool { return kernels.NeedsScratch(c.Method, uint8(c.Typesize)) }

// statusError is what a status of a chunk means.
func statusError(status uint32, method uint8) error {
	name := methodNames[method]
	switch status {
	case kernels.OK:
		return nil
	case kernels.Corrupt:
		return nd.Errorf(nd.ErrCorrupt, "%s: the chunk breaks the format or a checksum, or decodes to another length", name)
	default:
		return nd.Errorf(nd.ErrUnsupported, "%s: a chunk that the GPU leaves to the host's decoder", name)
	}
}
