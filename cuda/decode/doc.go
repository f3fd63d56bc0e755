// Package decode decodes batches of encoded chunks from memory to device memory, with
// the kernels of package kernels.
//
//	cuda.Load -> Driver -> Open(0) -> Device, Device.NewStream
//	Open -> Decoder -> Start(stream, chunks) -> Wait -> an error or nil for each chunk
//	NewZstd -> Zstd -> NewCall -> Call.Append(commands)     for callers with memory of their own
//
// The example below has all of it, from the driver to the decoded bytes. It needs a GPU; without
// one package cudatest stands in for the driver in tests: cuda.Load(cudatest.New(t).Path). [CodingOf]
// finds the method of an array's chunks from its metadata.
//
// A chunk is bytes of one of these methods, which decode to a length that the caller
// knows:
//
//	kernels.Zstd        zstd frames (RFC 8878), as libzstd writes them at any level
//	kernels.LZ4         numcodecs' lz4: the length in 4 bytes, then a block
//	kernels.Zlib, Gzip  RFC 1950; members of RFC 1952
//	kernels.Blosc       a blosc 1 frame with lz4, lz4hc or blosclz inside
//	kernels.BloscZstd   a blosc 1 frame with zstd inside
//	kernels.BloscZlib   a blosc 1 frame with zlib inside
//	kernels.Unshuffle   the bytes of elements apart, of size Typesize
//	kernels.Copy        plain bytes
//
// What Unshuffle undoes may also have been done before a chunk was encoded with zstd, lz4, zlib or
// gzip: its Typesize says so. A blosc frame says it by itself. Behind the bytes of any chunk
// there may be a CRC-32C of them, which is compared if the chunk is Summed.
//
// The host never looks at an encoded byte: headers are read on the GPU, and nothing is
// read back before the statuses. Sources may lie in device memory or in host memory that
// the GPU can read, pinned or registered: then the kernels read it over the bus. Those
// of zstd and zlib read bytes more than once; for them a copy to the device comes first, unless
// there are few.
//
// A chunk fails alone. One that breaks its format, a checksum, or decodes to another
// length, is [nd.ErrCorrupt]. One that is [nd.ErrUnsupported] may be good: it is of another
// method than it is said to be, wants a dictionary, is of a legacy format, bends the format where
// common decoders may not look, or found no room in the scratch memory. It is for the
// host's decoder, which has the last word. In both cases the chunk's bytes of the output
// are zero.
//
// Errors of a call. What the caller got wrong, a value out of range, a method that the decoder was not
// opened for or a batch too early, is
// [nd.ErrConfig]; a batch beyond the limits is [nd.ErrBudget]; a device that failed is
// [nd.ErrDevice]; a decoder or a device that was closed is [nd.ErrClosed].
//
// Memory is sized before the first call, from the limits of a call; see [Limits]. Calls in
// flight beside each other each have their own.
package decode
