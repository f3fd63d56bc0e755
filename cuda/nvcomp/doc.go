// Package nvcomp decodes chunks with nvCOMP, NVIDIA's library of GPU decoders, if
// the user has installed it. The library is proprietary: headrace neither brings
// nor needs it. It is found at run time, and nothing of it is needed to build.
//
//	Open -> Library -> Alignments, TempBytes     what a batch needs
//	                -> Decompress                enqueues a batch on a stream
//	CheckZstd                                    before a frame goes into a batch
//
// The decoders of nvCOMP only promise to work on valid input: on other input they
// may hang, or fault, and a fault takes the context of the whole process with it.
// So no chunk may reach a batch that CheckZstd has not passed. It checks every
// header that can be found without decoding; it lowers the risk and does not end
// it. After the batch the caller compares the actual bytes and the status of each
// chunk, and lets the host decode what is wrong.
//
// Zstandard alone is a Format. A deflate stream has no headers that could be
// checked without decoding all of it, and one flipped bit of it makes nvCOMP 5.2
// reach for an illegal address (docs/decisions/010-deflate-on-the-host.md).
//
// A Library may be used from any goroutine; its calls run one at a time.
package nvcomp
