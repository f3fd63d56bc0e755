// The lists of work, the longest first: lanes of a warp that decode pieces of about the
// same size end together, and no long piece begins when all others are done.
#pragma once
#include "zstd.h"

namespace hr {
namespace zstd {

// literalsKey is NONE if there are none to decode.
HR_FN u32 literalsKey(const Work &work, const Block &b) {
	if (b.type != COMPRESSED || b.literalsType == RAW_LITERALS || b.literalsDecoded == 0) return NONE;
	bool large = b.literalsType != RLE_LITERALS && work.blocks[b.treeBlock].treeLog > SMALL_TREE_LOG;
	u32 behind = (large ? 1 : 2) * LITERALS_SIZES;
	return behind - 1 - b.literalsDecoded / LITERALS_STEP;
}

HR_FN u32 sequencesKey(const Block &b) {
	if (b.type != COMPRESSED || b.sequenceCount == 0) return NONE;
	return KEYS - 1 - b.sequenceCount / SEQUENCES_STEP;
}

// Blocks of a chunk that has failed are in no list.
HR_FN bool listed(const ZstdParams &p, const Block &b) {
	return b.type == COMPRESSED && *statusOf(p, b.chunk) == OK;
}

// startLists computes where in the list each key begins. It is the part of a warp.
HR_FN void startLists(const Head &head, u32 *starts) {
	u32 before = 0;
	HR_ROLLED for (u32 g = 0; g < KEYS; g += LANES) {
		u32 key = g + lane(), n = key < KEYS ? head.counted[key] : 0, sum = sumBelow(n);
		if (key < KEYS) starts[key] = before + sum - n;
		before += shuffle(sum, LANES - 1);
	}
	if (lane() == 0) starts[KEYS] = before;
}

HR_FN void enlist(Work &work, const u32 *starts, u32 key, u32 b) {
	if (key != NONE) work.list[starts[key] + fetchAdd(&work.head->placed[key], 1u)] = b;
}

} // namespace zstd
} // namespace hr

HR_KERNEL(hr::ZSTD_ORDER_BLOCK, 4) hr_zstd_count(hr::ZstdParams p) {
	using namespace hr;
	zstd::Work work(p);
	u32 n = work.blockCount();
	HR_ROLLED for (u32 i = block() * threads() + thread(); i < n; i += blocks() * threads()) {
		const zstd::Block &b = work.blocks[i];
		if (!zstd::listed(p, b)) continue;
		u32 keys[2] = {zstd::literalsKey(work, b), zstd::sequencesKey(b)};
		HR_UNROLL for (u32 k = 0; k < 2; k++) {
			if (keys[k] != zstd::NONE) fetchAdd(&work.head->counted[keys[k]], 1u);
		}
	}
}

HR_KERNEL(hr::ZSTD_ORDER_BLOCK, 4) hr_zstd_order(hr::ZstdParams p) {
	using namespace hr;
	HR_SHARED u32 starts[zstd::KEYS + 1];
	zstd::Work work(p);
	if (warp() == 0) zstd::startLists(*work.head, starts);
	syncBlock();
	u32 n = work.blockCount();
	HR_ROLLED for (u32 i = block() * threads() + thread(); i < n; i += blocks() * threads()) {
		const zstd::Block &b = work.blocks[i];
		if (!zstd::listed(p, b)) continue;
		zstd::enlist(work, starts, zstd::literalsKey(work, b), i);
		zstd::enlist(work, starts, zstd::sequencesKey(b), i);
	}
	if (block() == 0 && thread() == 0) {
		zstd::Head &head = *work.head;
		head.longTrees = starts[zstd::LITERALS_SIZES];
		head.literals = starts[zstd::LITERALS_KEYS];
		head.sequences = starts[zstd::KEYS] - starts[zstd::LITERALS_KEYS];
	}
	syncBlock(); // starts are another block's next, on a host
}
