// Pieces of bytes to other places, a block of threads each: many scattered reads
// of registered host memory by few blocks.
#pragma once
#include "abi.h"
#include "bytes.h"

HR_KERNEL(hr::GATHER_BLOCK, 4) hr_gather(hr::GatherParams p) {
	using namespace hr;
	for (u32 i = block(); i < p.n; i += blocks()) {
		Piece piece = ((const Piece *)p.pieces)[i];
		copyBytes((u8 *)piece.dst, (const u8 *)piece.src, piece.n, thread(), threads());
	}
}
