// Loads, stores and copies at any alignment.
#pragma once
#include "simt.h"

namespace hr {

HR_FN bool aligned(const void *p, u32 n) { return ((u64)p & (n - 1)) == 0; }

// Loads and stores of global memory. On a GPU they are volatile, which keeps those
// of a thread in their order and says that no address is one of shared memory.
#if defined(HR_GPU)
HR_FN u32 loadByte(const u8 *p) {
	u32 v;
	asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}
HR_FN u32 loadWord(const u8 *p) {
	u32 v;
	asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}
// loadWordIf gives v another value only if it loads: written as a branch, the compiler copies
// what it has loaded, and so waits for it.
HR_FN void loadWordIf(bool loads, u32 &v, const u8 *p) {
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %2, 0; @q ld.global.u32 %0, [%1]; }" : "+r"(v) : "l"(p), "r"((u32)loads));
}
HR_FN void loadPair(u32 *w, const u8 *p) { asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p)); }
HR_FN void loadVector(u32 *w, const u8 *p) {
	asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(p));
}
HR_FN void storeByte(u8 *p, u32 v) { asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
HR_FN void storeHalf(u8 *p, u32 v) { asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"((u16)v) : "memory"); }
HR_FN void storeWord(u8 *p, u32 v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
HR_FN void storeVector(u8 *p, const u32 *w) {
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}
#else
HR_FN u32 loadByte(const u8 *p) { return *p; }
HR_FN u32 loadWord(const u8 *p) {
	u32 w;
	memcpy(&w, p, 4);
	return w;
}
HR_FN void loadPair(u32 *w, const u8 *p) { memcpy(w, __builtin_assume_aligned(p, 8), 8); }
HR_FN void loadVector(u32 *w, const u8 *p) { memcpy(w, p, 16); }
HR_FN void storeByte(u8 *p, u32 v) { *p = (u8)v; }
HR_FN void storeHalf(u8 *p, u32 v) { memcpy(__builtin_assume_aligned(p, 2), &v, 2); }
HR_FN void storeWord(u8 *p, u32 v) { memcpy(__builtin_assume_aligned(p, 4), &v, 4); }
HR_FN void storeVector(u8 *p, const u32 *w) { memcpy(__builtin_assume_aligned(p, 16), w, 16); }
#endif

// Vector is 16 bytes that are read and written as one.
struct alignas(16) Vector {
	u32 w[4];
};

// Accesses of shared memory, aligned.
#if defined(HR_GPU)
HR_FN u32 getWord(const u8 *p) { return *(const u32 *)p; }
HR_FN void putWord(u8 *p, u32 v) { *(u32 *)p = v; }
HR_FN Vector getVector(const u8 *p) { return *(const Vector *)p; }
HR_FN void putVector(u8 *p, const Vector &v) { *(Vector *)p = v; }
HR_FN void moveVector(u8 *to, const u8 *from) { putVector(to, getVector(from)); }
#else
HR_FN u32 getWord(const u8 *p) { return loadWord(p); }
HR_FN void putWord(u8 *p, u32 v) { memcpy(p, &v, 4); }
HR_FN Vector getVector(const u8 *p) {
	Vector v;
	memcpy(&v, p, sizeof v);
	return v;
}
HR_FN void putVector(u8 *p, const Vector &v) { memcpy(p, &v, sizeof v); }
// moveVector moves bytes of which not all need be anything.
#if defined(HR_RACES)
HR_FN void moveVector(u8 *to, const u8 *from) { hr_races_move(to, from, sizeof(Vector)); }
#else
HR_FN void moveVector(u8 *to, const u8 *from) { putVector(to, getVector(from)); }
#endif
#endif

// Run is WORDS words at any address, in two steps, so that many runs can be
// loaded before the first is waited for. A GPU loads aligned words, and of those
// only ones that hold a wanted byte: memory is readable in whole words.
template <int WORDS> struct Run {
#if defined(HR_GPU)
	u32 raw[WORDS + 1];
	u32 shift;

	HR_FN void load(const u8 *p) {
		shift = 8 * ((u32)(u64)p & 3);
		const u8 *word = (const u8 *)((u64)p & ~3ull);
		if (WORDS == 4 && aligned(p, 16)) {
			loadVector(raw, p);
			raw[WORDS] = 0;
			return;
		}
		HR_UNROLL for (int i = 0; i < WORDS; i++) raw[i] = loadWord(word + 4 * i);
		raw[WORDS] = 0;
		if (shift) raw[WORDS] = loadWord(word + 4 * WORDS);
	}
	HR_FN u32 word(int i) const { return funnel(raw[i], raw[i + 1], shift); }

	// loadPart loads no word but those with a byte of p that is not before from
	// and before to. The others are 0.
	HR_FN void loadPart(const u8 *p, i32 from, i32 to) {
		i32 at = (i32)((u32)(u64)p & 3);
		shift = 8 * (u32)at;
		HR_UNROLL for (int i = 0; i <= WORDS; i++) {
			raw[i] = 0;
			if (from < to && 4 * i + 4 > from + at && 4 * i < to + at) raw[i] = loadWord(p - at + 4 * i);
		}
	}
#else
	u32 raw[WORDS];
	HR_FN void load(const u8 *p) {
		memcpy(raw, p, sizeof raw);
		u32 lead = (u32)(u64)p & 3;
		wide(p - lead, (lead + sizeof raw + 3) & ~3u);
	}
	HR_FN u32 word(int i) const { return raw[i]; }
	HR_FN void loadPart(const u8 *p, i32 from, i32 to) {
		memset(raw, 0, sizeof raw);
		if (from >= to) return;
		memcpy((u8 *)raw + from, p + from, to - from);
		const u8 *begin = (const u8 *)((u64)(p + from) & ~3ull), *end = (const u8 *)(((u64)(p + to) + 3) & ~3ull);
		wide(begin, (u32)(end - begin));
	}
#endif
};

// readU32 reads a little-endian number at any address, and no byte beside it.
HR_FN u32 readU32(const u8 *p) { return loadByte(p) | loadByte(p + 1) << 8 | loadByte(p + 2) << 16 | loadByte(p + 3) << 24; }

// headTo16 is the number of bytes before the next multiple of 16, at most n.
HR_FN u64 headTo16(const u8 *p, u64 n) { return least<u64>(-(u64)p & 15, n); }

// copyBytes copies n bytes between buffers that do not overlap. It is the part
// of worker id of count workers, which all call it.
HR_FAR void copyBytes(u8 *dst, const u8 *src, u64 n, u32 id, u32 count) {
	u64 head = headTo16(dst, n);
	for (u64 i = id; i < head; i += count) storeByte(dst + i, loadByte(src + i));
	u64 beside = aligned(src + head, 4) ? 0 : 3; // a run reads so many bytes behind it: of the n, or nobody may have written them
	u64 vectors = n - head < beside ? 0 : (n - head - beside) / 16;
	u8 *to = dst + head;
	const u8 *from = src + head;
	u64 i = id;
	HR_ROLLED for (; i + 3 * count < vectors; i += 4 * count) {
		Run<4> run[4];
		HR_UNROLL for (int k = 0; k < 4; k++) run[k].load(from + 16 * (i + k * count));
		HR_UNROLL for (int k = 0; k < 4; k++) {
			u32 w[4] = {run[k].word(0), run[k].word(1), run[k].word(2), run[k].word(3)};
			storeVector(to + 16 * (i + k * count), w);
		}
	}
	HR_ROLLED for (; i < vectors; i += count) {
		Run<4> run;
		run.load(from + 16 * i);
		u32 w[4] = {run.word(0), run.word(1), run.word(2), run.word(3)};
		storeVector(to + 16 * i, w);
	}
	HR_ROLLED for (u64 j = head + 16 * vectors + id; j < n; j += count) storeByte(dst + j, loadByte(src + j));
}

// zeroBytes is the part of worker id of count workers.
HR_FAR void zeroBytes(u8 *dst, u64 n, u32 id, u32 count) {
	u64 head = headTo16(dst, n), tail = head + (n - head) / 16 * 16;
	u32 zero[4] = {0, 0, 0, 0};
	HR_ROLLED for (u64 i = id; i < head; i += count) storeByte(dst + i, 0);
	HR_ROLLED for (u64 i = head + 16 * id; i < tail; i += 16 * count) storeVector(dst + i, zero);
	HR_ROLLED for (u64 i = tail + id; i < n; i += count) storeByte(dst + i, 0);
}

} // namespace hr
