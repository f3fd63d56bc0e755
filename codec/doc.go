// Package codec turns stored chunks into elements: the codecs of zarr on the
// host, and the loops over elements behind them.
//
//	stored chunk --> codec --> codec --> ... --> filter --> elements, as stored
//	                   \__ Scratch: one a worker __/             |
//	                                                  Unshuffle, Converter, Gather, Fill
//
// A Chain is the codecs of one array in the order of decoding: first what was
// put on last. A typical chain and the bytes between its stages:
//
//	v3  crc32c -> blosc ->                       bytes of a chunk
//	v2  zlib -> fixedscaleoffset ->              bytes of a chunk
//	    n bytes | as many as the filter asks for | exactly the chain's size
//
// The number of decoded bytes comes from the shape of the chunk and never from
// the stream, so every decoder writes into memory that the caller has sized, and
// a stream that holds more or less is corrupt. Input is hostile until decoded:
// no decoder panics, reads or writes out of bounds, or allocates by a size that
// the stream names.
//
// After warm-up nothing is allocated per chunk: decoder states and buffers live
// in a Scratch, of which each worker goroutine owns one. Codecs and chains are
// immutable and shared.
//
// zstd is libzstd where cgo is on, and klauspost/compress otherwise or with the
// build tag purego; LZ4 blocks are decoded by assembly of pierrec/lz4 or by a
// loop of this package. Each fast path has its slow twin here, and fuzzers hold
// one against the other.
package codec
