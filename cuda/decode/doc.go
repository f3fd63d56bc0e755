// Package decode decodes batches of zstd frames (RFC 8878) from device memory to
// device memory, with kernels of package kernels.
//
//	Open -> Decoder -> Start(stream, chunks) -> Wait -> an error or nil for each chunk
//	NewZstd -> Zstd -> NewCall -> Call.Append(commands)     for callers with memory of their own
//
// A chunk is one or more frames, skippable ones among them, that decode to a length
// which the caller knows. What is decoded is every frame that libzstd writes at any
// level, with and without content size; content checksums are verified unless the
// chunk says otherwise. The headers are scanned on the GPU: the host never looks at
// a compressed byte, and nothing is read back before the statuses.
//
// A chunk fails alone. One that breaks the format, or decodes to another length, is
// [nd.ErrCorrupt]. One that is [nd.ErrUnsupported] may be good: it wants a dictionary, is
// of a legacy format, bends the format where libzstd may not look, or found no
// room in the scratch memory. It is for the host's decoder, which has the last word.
// In both cases the chunk's bytes of the output are zero.
//
// Scratch memory is sized before the first call, from the limits of a call; see
// [Limits.Scratch]. Calls in flight beside each other each have their own.
package decode
