// Chunks to bytes: numcodecs' lz4, blosc 1 frames, byte shuffle, plain bytes. A
// block of threads decodes a few chunks at a time; a warp of it, a stream.
#pragma once
#include "blosc.h"
#include "blosclz.h"
#include "lz4.h"

namespace hr {

// Task is a chunk as the threads of a block share it. numcodecs' lz4 has one stream behind its
// length, in a chunk without a frame.
struct Task {
	Chunk chunk;
	Frame frame;
	Status status; // what the headers say
	u32 bytes;     // what came of decoding; settled when all warps are done
	u32 streams;   // of a block of the frame
	u32 items;     // streams that warps decode, each on its own

	// apart is whether an lz4 chunk's bytes are to be put together.
	HR_FN bool apart() const { return chunk.typesize > 1; }

	HR_FN const u8 *src() const { return (const u8 *)chunk.src; }
	HR_FN u8 *dst() const { return (u8 *)chunk.dst; }
};

// Stream is what a warp decodes at a time: bytes to be decoded to so many others.
struct Stream {
	u8 *dst;
	const u8 *src;
	u32 dstBytes, srcBytes;
};

// findStream finds an item of a frame: a stream of one of its blocks. It is false if there is no
// such thing. The last block may have less streams than the others; then there is nothing to do.
HR_FN bool findStream(const Task &task, u32 item, Stream &out) {
	const Frame &f = task.frame;
	u32 b = item / task.streams, s = item % task.streams, length = f.blockBytes(b), count = f.streams(length);
	out.dstBytes = out.srcBytes = 0;
	if (s >= count) return true;
	if (length % count != 0) return false;
	u32 at;
	if (!f.find(b, s, at, out.srcBytes)) return false;
	out.dstBytes = length / count;
	out.dst = f.decoded(task.chunk, b) + (u64)s * out.dstBytes;
	out.src = f.data + at;
	return true;
}

// decodeItem is the part of a warp.
HR_FN bool decodeItem(const Task &task, u32 item) {
	const Chunk &c = task.chunk;
	Stream s = {task.apart() ? (u8 *)c.scratch : task.dst(), task.src() + 4, c.dstBytes, c.srcBytes - 4};
	if (c.method == BLOSC) {
		if (!findStream(task, item, s)) return false;
		if (s.dstBytes == s.srcBytes) { // it is plain
			copyBytes(s.dst, s.src, s.dstBytes, lane(), LANES);
			return true;
		}
		if (task.frame.format() == Frame::BLOSCLZ_STREAMS) return decodeBloscLZ(s.dst, s.dstBytes, s.src, s.srcBytes);
	}
	return decodeLZ4(s.dst, s.dstBytes, s.src, s.srcBytes);
}

// Hand is what a block of threads works on at a time: so many chunks that no warp is idle
// while another decodes the only stream of its chunk: one, if there is a block for each.
struct Hand {
	enum { CHUNKS = 2, TURN = 7 };

	Task tasks[CHUNKS];
	u32 count;
	u32 item; // the next one that is not decoded
};

// decodeItems is the part of a warp.
HR_FN void decodeItems(Hand &hand) {
	for (;;) {
		u32 item = lane() == 0 ? take(&hand.item) : 0;
		item = shuffle(item, 0);
		u32 t = 0;
		HR_ROLLED for (; t < hand.count && item >= hand.tasks[t].items; t++) item -= hand.tasks[t].items;
		if (t == hand.count) return;
		Task &task = hand.tasks[t];
		bool good = decodeItem(task, item);
		if (!good && lane() == 0) raise(&task.bytes, CORRUPT);
	}
}

// prepareLZ4 reads the length.
HR_FN Status prepareLZ4(Task &task) {
	const Chunk &c = task.chunk;
	if (c.srcBytes < 4) return CORRUPT;
	u32 n = readU32(task.src());
	if (c.srcBytes > 0x7fffffff || n > 0x7fffffff) return UNSUPPORTED;
	if (n != c.dstBytes) return CORRUPT;
	task.streams = task.items = 1;
	return OK;
}

HR_FN Status prepareBlosc(Task &task) {
	const Chunk &c = task.chunk;
	Frame &f = task.frame;
	Status status = f.parse(task.src(), c.srcBytes, 1 << Frame::LZ4_STREAMS | 1 << Frame::BLOSCLZ_STREAMS);
	if (status != OK) return status;
	if (f.nbytes != c.dstBytes) return CORRUPT;
	if (f.plain()) return OK;
	task.streams = f.streams(f.blocksize);
	task.items = f.blocks * task.streams;
	return OK;
}

// prepare is the part of one thread: it reads what there is of headers.
HR_FN Status prepare(Task &task) {
	const Chunk &c = task.chunk;
	switch (c.method) {
	case LZ4: return prepareLZ4(task);
	case BLOSC: return prepareBlosc(task);
	case UNSHUFFLE:
	case COPY: return c.srcBytes == c.dstBytes ? OK : CORRUPT;
	default: return UNSUPPORTED;
	}
}

// begin is the part of one thread.
HR_FN void begin(Task &task, const Chunk &c) {
	task.chunk = c;
	task.bytes = OK;
	task.items = 0;
	task.status = prepare(task);
}

// finish is what is to do when all streams are decoded, by all threads.
HR_FN void finish(const Task &task) {
	const Chunk &c = task.chunk;
	if (task.status != OK || task.bytes != OK) {
		zeroBytes(task.dst(), c.dstBytes, thread(), threads());
		return;
	}
	switch (c.method) {
	case UNSHUFFLE: unshuffle(task.dst(), task.src(), c.dstBytes, c.typesize, thread(), threads()); break;
	case COPY: copyBytes(task.dst(), task.src(), c.dstBytes, thread(), threads()); break;
	case LZ4:
		if (task.apart()) unshuffle(task.dst(), (const u8 *)c.scratch, c.dstBytes, c.typesize, thread(), threads());
		break;
	default:
		if (task.frame.plain()) copyBytes(task.dst(), task.src() + Frame::HEADER, c.dstBytes, thread(), threads());
		else task.frame.unshuffle(c, 0, 1, thread(), threads());
	}
}

} // namespace hr

HR_KERNEL(hr::DECODE_BLOCK, 8) hr_decode(hr::DecodeParams p) {
	using namespace hr;
	HR_SHARED Hand hand;
	u32 each = p.n > blocks() ? Hand::CHUNKS : 1, turn = block();
	for (u64 done = 0; done < p.n; done += (u64)blocks() * each) {
		// Where chunks that take long come at equal distances, no block shall have them all.
		u64 i = done + turn * each;
		turn = (turn + Hand::TURN) % blocks();
		if (i >= p.n) break;
		syncBlock(); // the last hand is done
		u32 count = least<u64>(each, p.n - i);
		for (u32 t = thread(); t < count; t += threads()) begin(hand.tasks[t], ((const Chunk *)p.chunks)[i + t]);
		if (thread() == 0) {
			hand.count = count;
			hand.item = 0;
		}
		syncBlock();
		decodeItems(hand);
		syncBlock();
		HR_ROLLED for (u32 t = 0; t < count; t++) {
			const Task &task = hand.tasks[t];
			finish(task);
			if (thread() == 0) ((u32 *)p.status)[task.chunk.status] = most<u32>(task.status, task.bytes);
		}
	}
}
