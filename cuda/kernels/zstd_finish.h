// What is left when all blocks are executed: chunks that were refused become zeros, and the bytes
// of shuffled elements are put together.
#pragma once
#include "blosc.h"
#include "zstd.h"

namespace hr {
namespace zstd {

// Share is the part of a block of threads in a chunk that some of them finish.
struct Share {
	u32 block, blocks;

	HR_FN u32 id() const { return block * threads() + thread(); }
	HR_FN u32 count() const { return blocks * threads(); }
};

// finishBlosc gives each block of threads as many whole blocks of the frame as it can.
HR_FN void finishBlosc(const Chunk &c, Share share) {
	Frame f;
	f.parse((const u8 *)c.src, c.srcBytes, 1 << Frame::ZSTD_STREAMS); // which hr_zstd_scan found good
	if (f.plain()) {
		copyBytes((u8 *)c.dst, f.data + Frame::HEADER, f.nbytes, share.id(), share.count());
		return;
	}
	u32 ways = least(f.blocks, share.blocks);
	Share inner = {share.block / ways, share.blocks / ways};
	if (inner.block < inner.blocks) f.unshuffle(c, share.block % ways, ways, inner.id(), inner.count());
}

HR_FN void finishChunk(const ZstdParams &p, u32 chunk, Share share) {
	const Chunk &c = chunkOf(p, chunk);
	if (*statusOf(p, chunk) != OK) zeroBytes((u8 *)c.dst, c.dstBytes, share.id(), share.count());
	else if (c.method == BLOSC_ZSTD) finishBlosc(c, share);
	else if (c.typesize > 1)
		unshuffle((u8 *)c.dst, (const u8 *)c.scratch, c.dstBytes, c.typesize, share.id(), share.count());
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_FINISH_BLOCK, 4) hr_zstd_finish(hr::ZstdParams p) {
	using namespace hr;
	if (p.n == 0) return;
	// Few chunks are shared by many blocks of threads.
	u32 each = most(blocks() / p.n, 1u);
	HR_ROLLED for (u32 i = block(); i < p.n * each; i += blocks())
		zstd::finishChunk(p, i % p.n, {i / p.n, each});
}
