// Package kernels holds the CUDA kernels of headrace, compiled, and the Go side of
// their binary interface.
//
//	bytes of a wave -> hr_decode -> chunks -> hr_assemble -> batch
//
// Chunks of zstd, bare or in frames of blosc, take the place of hr_decode with eight
// kernels, hr_zstd_scan to hr_zstd_finish, which package decode launches; zstd.h tells how
// they follow each other. zlib and gzip, bare or in frames of blosc, go to hr_inflate.
//
// hr_gather copies pieces of registered host memory, for drivers without batched
// copies; the engine does not launch it yet (package cuda copies piece by piece there).
//
// One source, kernels.cu and its headers, is compiled five ways:
//
//   - by NVRTC 12.2 to kernels.ptx, which is committed and embedded (make kernels;
//     the image carries the hash of its sources, and a test compares them);
//   - by nvcc 13.0 and clang-19, as a check (make kernels-check);
//   - as C++ for a host, host.cc: one thread is a block, one lane a warp. All loops
//     over items go in steps of the number of threads or lanes, so that one is as
//     right as 256. That build is fast; it stands in for a GPU in tests of the
//     engine, and is fuzzed;
//   - as C++ with HR_FIBERS: every thread of a block is a fiber, which runs to its
//     next barrier or shuffle. That build runs what threads do together (windows
//     in registers, overlapping matches, transposes), each byte under the address
//     sanitizer, in changing orders of threads. It is for the tests of this package;
//   - the same with HR_RACES: what lanes and warps do to each other's bytes without a
//     barrier between is found, and what is read that nobody has written; see races.h.
//     A word of shared memory counts there as a GPU reads it, as a whole.
//
// The alternative, loops over lanes written into the kernels by macros, would make
// one fast host build out of two, but every value that lives across a barrier
// would be an array, and the GPU code would be unreadable for it.
//
// What the kernels must give, to the byte, is what package codec gives; what it
// refuses they refuse, with a status instead of an error. Where libraries of a format differ, the word is that of
// libzstd (see zstdCodec for where its pure Go twin is laxer); ends of LZ4 blocks and of blosclz streams that liblz4 and c-blosc
// are allowed to refuse are decoded, as package codec does. tests/decoders/reasons.py has the list.
package kernels
