package decode

import (
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// methodNames are for messages.
var methodNames = [...]string{
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
