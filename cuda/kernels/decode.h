// Chunks to bytes: numcodecs' lz4, blosc 1 frames, byte shuffle, plain bytes. A
// block of threads decodes a few chunks at a time; a warp of it, a stream.
#pragma once
#include "abi.h"
#include "lz4.h"
#include "shuffle.h"

namespace hr {

// A frame of blosc 1 (codec/blosc_frame.go has the format in full): a header of
// 16 bytes, the start of each block, blocks of one stream or of one for each byte
// of the element. Every thread parses it, each the same. numcodecs' lz4 counts as a
// frame of one block, whose only stream is all but the length before it.
struct Frame {
	enum { HEADER = 16, SHUFFLED = 1, MEMCPYED = 2, BIT_SHUFFLED = 4, RESERVED = 8, UNSPLIT = 16 };
	enum Filter { NONE, BYTES, BITS };

	const u8 *data;
	u32 flags, typesize, nbytes, blocksize, cbytes;
	u32 blocks;
	bool bare; // numcodecs' lz4

	HR_FN Status parseLZ4(const u8 *src, u32 n) {
		if (n < 4) return CORRUPT;
		data = src;
		cbytes = n;
		nbytes = blocksize = readU32(src);
		flags = UNSPLIT;
		typesize = blocks = 1;
		bare = true;
		return n > 0x7fffffff || nbytes > 0x7fffffff ? UNSUPPORTED : OK;
	}

	// parse checks all that the header tells.
	HR_FN Status parse(const u8 *src, u32 n) {
		if (n < HEADER) return CORRUPT;
		data = src;
		bare = false;
		flags = loadByte(src + 2);
		typesize = loadByte(src + 3);
		nbytes = readU32(src + 4);
		blocksize = readU32(src + 8);
		cbytes = readU32(src + 12);
		// What the host may read, or has more to say about.
		if (loadByte(src) != 2 || (flags & RESERVED) || (flags & (SHUFFLED | BIT_SHUFFLED)) == (SHUFFLED | BIT_SHUFFLED)) return UNSUPPORTED;
		if (!(flags & MEMCPYED) && (flags >> 5 != 1 || loadByte(src + 1) != 1)) return UNSUPPORTED;
		if (cbytes > n || cbytes < HEADER || nbytes > 0x7fffffff - HEADER) return CORRUPT;
		if (nbytes > 0 && (typesize == 0 || blocksize == 0 || blocksize > nbytes)) return CORRUPT;
		if ((flags & MEMCPYED) && cbytes != nbytes + HEADER) return CORRUPT;
		blocks = 0;
		if (plain()) return OK;
		blocks = (nbytes - 1) / blocksize + 1;
		return blocks > (cbytes - HEADER) / 4 ? CORRUPT : OK;
	}

	// plain frames are never shuffled, whatever the flags say.
	HR_FN bool plain() const { return (flags & MEMCPYED) || (nbytes == 0 && !bare); }

	HR_FN u32 blockBytes(u32 b) const { return least(blocksize, nbytes - b * blocksize); }

	// streams is the number of streams of a block of the given length. Only the
	// last one can be shorter than blocksize.
	HR_FN u32 streams(u32 length) const {
		bool split = !(flags & UNSPLIT) && length == blocksize && typesize <= 16 && length / typesize >= 128;
		return split ? typesize : 1;
	}

	HR_FN Filter filter(u32 length) const {
		if (flags & SHUFFLED) return typesize > 1 ? BYTES : NONE;
		u32 n = length / typesize;
		return (flags & BIT_SHUFFLED) && n > 0 && n % 8 == 0 ? BITS : NONE;
	}

	// find gives the bytes of stream s of block b.
	HR_FN bool find(u32 b, u32 s, const u8 *&stream, u32 &n) const {
		if (bare) {
			stream = data + 4;
			n = cbytes - 4;
			return true;
		}
		u32 at = readU32(data + HEADER + 4 * (u64)b);
		if (at < HEADER + 4 * (u64)blocks || at >= cbytes || at > 0x7fffffff) return false;
		for (;; s--) {
			if (cbytes - at < 4) return false;
			n = readU32(data + at);
			at += 4;
			if (n == 0 || n > cbytes - at || n > 0x7fffffff) return false;
			stream = data + at;
			if (s == 0) return true;
			at += n;
		}
	}
};

// decodeStream is the part of a warp: stream s of block b, to where unfilter will
// look for it.
HR_FN bool decodeStream(const Frame &f, const Chunk &c, u32 b, u32 s) {
	u32 length = f.blockBytes(b), count = f.streams(length);
	if (s >= count) return true;
	if (length % count != 0) return false;
	u32 raw = length / count, n;
	const u8 *stream;
	if (!f.find(b, s, stream, n)) return false;
	u8 *to = (u8 *)(f.filter(length) == Frame::NONE ? c.dst : c.scratch) + (u64)b * f.blocksize + (u64)s * raw;
	// A stream of its decoded length is plain; numcodecs knows no such thing.
	if (n != raw || f.bare) return decodeLZ4(to, raw, stream, n);
	copyBytes(to, stream, n, lane(), LANES);
	return true;
}

HR_FN void unfilter(const Frame &f, const Chunk &c) {
	HR_ROLLED for (u32 b = 0; b < f.blocks; b++) {
		u32 length = f.blockBytes(b);
		u64 start = (u64)b * f.blocksize;
		u8 *dst = (u8 *)c.dst + start;
		const u8 *src = (const u8 *)c.scratch + start;
		switch (f.filter(length)) {
		case Frame::BYTES: unshuffle(dst, src, length, f.typesize); break;
		case Frame::BITS: bitUnshuffle(dst, src, length, f.typesize); break;
		default: break;
		}
	}
}

// Task is a chunk as the threads of a block share it.
struct Task {
	Chunk chunk;
	Frame frame;
	Status status; // what the headers say
	Status bytes;  // what came of decoding; settled when all warps are done
	u32 streams;   // of a block of the frame
	u32 items;     // streams that warps decode, each on its own
};

// Hand is what a block of threads works on at a time: so many chunks that no warp is idle
// while another decodes the only stream of its chunk.
struct Hand {
	enum { CHUNKS = 2 };

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
		bool good = decodeStream(task.frame, task.chunk, item / task.streams, item % task.streams);
		if (!good && lane() == 0) task.bytes = CORRUPT;
	}
}

// prepare is the part of one thread: it reads what there is of headers.
HR_FN Status prepare(Task &task) {
	const Chunk &c = task.chunk;
	Status status = OK;
	switch (c.method) {
	case LZ4:
		if (c.typesize > 1) return UNSUPPORTED;
		status = task.frame.parseLZ4((const u8 *)c.src, c.srcBytes);
		break;
	case BLOSC: status = task.frame.parse((const u8 *)c.src, c.srcBytes); break;
	case UNSHUFFLE:
	case COPY: return c.srcBytes == c.dstBytes ? OK : CORRUPT;
	default: return UNSUPPORTED;
	}
	return status == OK && task.frame.nbytes != c.dstBytes ? CORRUPT : status;
}

// begin is the part of one thread.
HR_FN void begin(Task &task, const Chunk &c) {
	task.chunk = c;
	task.status = prepare(task);
	task.bytes = OK;
	task.items = 0;
	const Frame &f = task.frame;
	if (task.status != OK || (c.method != LZ4 && c.method != BLOSC) || f.plain()) return;
	task.streams = f.streams(f.blocksize);
	task.items = f.blocks * task.streams;
}

// finish is what is to do when all streams are decoded, by all threads.
HR_FN void finish(const Task &task) {
	const Chunk &c = task.chunk;
	const Frame &f = task.frame;
	u8 *dst = (u8 *)c.dst;
	if (task.status != OK || task.bytes != OK) {
		zeroBytes(dst, c.dstBytes, thread(), threads());
	} else if (c.method == UNSHUFFLE || c.method == COPY) {
		unshuffle(dst, (const u8 *)c.src, c.dstBytes, c.method == UNSHUFFLE ? c.typesize : 1);
	} else if (f.plain()) {
		copyBytes(dst, f.data + Frame::HEADER, f.nbytes, thread(), threads());
	} else {
		unfilter(f, c);
	}
}

} // namespace hr

HR_KERNEL(hr::DECODE_BLOCK, 8) hr_decode(hr::DecodeParams p) {
	using namespace hr;
	HR_SHARED Hand hand;
	for (u64 i = (u64)block() * Hand::CHUNKS; i < p.n; i += (u64)blocks() * Hand::CHUNKS) {
		syncBlock(); // the last hand is done
		u32 count = least<u64>(Hand::CHUNKS, p.n - i);
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
			if (thread() == 0) ((u32 *)p.status)[task.chunk.status] = most(task.status, task.bytes);
		}
	}
}
