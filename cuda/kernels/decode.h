// Chunks to bytes: numcodecs' lz4, blosc 1 frames, byte shuffle, plain bytes. A
// block of threads decodes a few chunks at a time; a warp of it, a stream.
#pragma once
#include "blosc.h"
#include "blosclz.h"
#include "lz4.h"
#include "tasks.h"

namespace hr {

// Stream is what a warp decodes at a time: bytes to be decoded to so many others.
struct Stream {
	u8 *dst;
	const u8 *src;
	u32 dstBytes, srcBytes;
};

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

	// prepareLZ4 reads the length.
	HR_FN Status prepareLZ4() {
		if (chunk.srcBytes < 4) return CORRUPT;
		u32 n = readU32(src());
		if (chunk.srcBytes > 0x7fffffff || n > 0x7fffffff) return UNSUPPORTED;
		if (n != chunk.dstBytes) return CORRUPT;
		streams = items = 1;
		return OK;
	}

	HR_FN Status prepareBlosc() {
		const u32 formats = 1 << Frame::LZ4_STREAMS | 1 << Frame::BLOSCLZ_STREAMS;
		Status status = frame.parse(src(), chunk.srcBytes, formats);
		if (status != OK) return status;
		if (frame.nbytes != chunk.dstBytes) return CORRUPT;
		if (frame.plain()) return OK;
		streams = frame.streams(frame.blocksize);
		items = frame.blocks * streams;
		return OK;
	}

	// prepare is the part of one thread: it reads what there is of headers.
	HR_FN Status prepare() {
		switch (chunk.method) {
		case LZ4: return prepareLZ4();
		case BLOSC: return prepareBlosc();
		case UNSHUFFLE:
		case COPY: return chunk.srcBytes == chunk.dstBytes ? OK : CORRUPT;
		default: return UNSUPPORTED;
		}
	}

	HR_FN void begin(const Chunk &c) {
		chunk = c;
		bytes = OK;
		items = 0;
		status = prepare();
	}

	// finish is what is to do when all streams are decoded, by all threads.
	HR_FN void finish() const {
		if (status != OK || bytes != OK) {
			zeroBytes(dst(), chunk.dstBytes, thread(), threads());
			return;
		}
		switch (chunk.method) {
		case UNSHUFFLE: unshuffle(dst(), src(), chunk.dstBytes, chunk.typesize, thread(), threads()); break;
		case COPY: copyBytes(dst(), src(), chunk.dstBytes, thread(), threads()); break;
		case LZ4:
			if (apart())
				unshuffle(dst(), (const u8 *)chunk.scratch, chunk.dstBytes, chunk.typesize, thread(),
				    threads());
			break;
		default:
			if (frame.plain()) copyBytes(dst(), src() + Frame::HEADER, chunk.dstBytes, thread(), threads());
			else frame.unshuffle(chunk, 0, 1, thread(), threads());
		}
	}

	// findStream finds an item of a frame: a stream of one of its blocks. It is false if there is no
	// such thing. The last block may have less streams than the others; then there is nothing to do.
	HR_FN bool findStream(u32 item, Stream &out) const {
		u32 b = item / streams, s = item % streams, length = frame.blockBytes(b),
		    count = frame.streams(length);
		out.dstBytes = out.srcBytes = 0;
		if (s >= count) return true;
		if (length % count != 0) return false;
		u32 at;
		if (!frame.find(b, s, at, out.srcBytes)) return false;
		out.dstBytes = length / count;
		out.dst = frame.decoded(chunk, b) + (u64)s * out.dstBytes;
		out.src = frame.data + at;
		return true;
	}

	// decodeItem is the part of a warp.
	HR_FN bool decodeItem(u32 item) const {
		Stream s = {apart() ? (u8 *)chunk.scratch : dst(), src() + 4, chunk.dstBytes, chunk.srcBytes - 4};
		if (chunk.method == BLOSC) {
			if (!findStream(item, s)) return false;
			if (s.dstBytes == s.srcBytes) { // it is plain
				copyBytes(s.dst, s.src, s.dstBytes, lane(), LANES);
				return true;
			}
			if (frame.format() == Frame::BLOSCLZ_STREAMS)
				return decodeBloscLZ(s.dst, s.dstBytes, s.src, s.srcBytes);
		}
		return decodeLZ4(s.dst, s.dstBytes, s.src, s.srcBytes);
	}

	// decode is the part of a warp.
	HR_FN void decode(u32 item) {
		if (!decodeItem(item) && lane() == 0) raise(&bytes, CORRUPT);
	}

	HR_FN u32 worst() const { return most<u32>(status, bytes); }
};

} // namespace hr

HR_KERNEL(hr::DECODE_BLOCK, 8) hr_decode(hr::DecodeParams p) {
	using namespace hr;
	enum { TURN = 7 };
	HR_SHARED Tasks<Task> shared;
	// One chunk at a time, if there is a block for each.
	u32 each = p.n > blocks() ? Tasks<Task>::CHUNKS : 1, turn = block();
	for (u64 done = 0; done < p.n; done += (u64)blocks() * each) {
		// Where chunks that take long come at equal distances, no block shall have them all.
		u64 i = done + turn * each;
		turn = (turn + TURN) % blocks();
		if (i >= p.n) break;
		shared.begin((const Chunk *)p.chunks + i, least<u64>(each, p.n - i));
		u32 t, item;
		HR_ROLLED while (shared.take(t, item)) shared.tasks[t].decode(item);
		shared.finish((u32 *)p.status);
	}
}
