// The words of the machine: what the kernels need of a GPU, or of a host that
// stands in for one. There are three builds of the same source, and of the last one a fourth (HR_RACES):
//
//   GPU          NVRTC, nvcc or clang; no CUDA header is included
//   host         one thread is a block and one lane a warp: fast, for running
//                the engine without a GPU and for fuzzing
//   host, fibers (HR_FIBERS) every thread of a block is a fiber and a warp has
//                32 lanes: slow, for testing what threads do together
#pragma once

namespace hr {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

} // namespace hr

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
#define HR_GPU 1

#if defined(__clang__) // without its CUDA headers
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#endif

#define HR_FN __device__ __forceinline__
#define HR_FAR __device__ __attribute__((noinline)) // compiled once, called
#define HR_KERNEL(block, blocks) extern "C" __global__ void __launch_bounds__(block, blocks)
#define HR_SHARED __shared__
#define HR_DYNAMIC(T, name, n) extern __shared__ T name[] // what the launch gives
#define HR_CONSTANT __constant__ const
#define HR_UNROLL _Pragma("unroll")
#define HR_ROLLED _Pragma("unroll 1")

namespace hr {

enum { LANES = 32 };

#if defined(__clang__)
HR_FN u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
HR_FN u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
HR_FN u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
HR_FN u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
HR_FN void syncBlock() { asm volatile("bar.sync 0;" ::: "memory"); }
HR_FN void syncWarp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
HR_FN u32 shuffle(u32 v, u32 from) {
	u32 out;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(out) : "r"(v), "r"(from));
	return out;
}
HR_FN u32 ballot(bool v) {
	u32 out;
	asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(out) : "r"((u32)v));
	return out;
}
HR_FN u32 lowest(u32 bits) { return (u32)__builtin_ctz(bits); }
HR_FN u32 count(u32 bits) { return (u32)__builtin_popcount(bits); }
#else
HR_FN u32 thread() { return threadIdx.x; }
HR_FN u32 threads() { return blockDim.x; }
HR_FN u32 block() { return blockIdx.x; }
HR_FN u32 blocks() { return gridDim.x; }
HR_FN void syncBlock() { __syncthreads(); }
HR_FN void syncWarp() { __syncwarp(); }
HR_FN u32 shuffle(u32 v, u32 from) { return __shfl_sync(0xffffffffu, v, from); }
HR_FN u32 ballot(bool v) { return __ballot_sync(0xffffffffu, v); }
HR_FN u32 lowest(u32 bits) { return (u32)__ffs((int)bits) - 1; } // bits is not 0
HR_FN u32 count(u32 bits) { return (u32)__popc(bits); }
#endif

// highest is the place of the highest bit; bits is not 0. It is slow, so it stays where it is asked for: ahead
// of what can be done meanwhile.
HR_FN u32 highest(u32 bits) {
	u32 out;
	asm volatile("bfind.u32 %0, %1;" : "=r"(out) : "r"(bits));
	return out;
}

// match gives the lanes that have the same value.
HR_FN u32 match(u32 v) {
	u32 out;
	asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(out) : "r"(v));
	return out;
}

HR_FN void prefetch(const void *p) { asm volatile("prefetch.global.L1 [%0];" ::"l"(p)); }

// take is the value of a counter in shared memory, which is then one more.
HR_FN u32 take(u32 *counter) {
	u32 out;
	asm volatile("atom.add.u32 %0, [%1], 1;" : "=r"(out) : "l"(counter) : "memory");
	return out;
}

// fetchAdd adds to a number that others add to, and gives what it was before.
HR_FN u32 fetchAdd(u32 *p, u32 n) {
	u32 out;
	asm volatile("atom.add.u32 %0, [%1], %2;" : "=r"(out) : "l"(p), "r"(n) : "memory");
	return out;
}
HR_FN u64 fetchAdd(u64 *p, u64 n) {
	u64 out;
	asm volatile("atom.add.u64 %0, [%1], %2;" : "=l"(out) : "l"(p), "l"(n) : "memory");
	return out;
}
// current is a number that others raise in this moment.
HR_FN u32 current(const u32 *p) {
	u32 out;
	asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(out) : "l"(p) : "memory");
	return out;
}
// raise makes a number at least n.
HR_FN void raise(u32 *p, u32 n) {
	asm volatile("red.max.u32 [%0], %1;" ::"l"(p), "r"(n) : "memory");
}

HR_FN u32 permute(u32 a, u32 b, u32 selector) {
	u32 out;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(selector));
	return out;
}
// funnel is the low word of (hi:lo) >> n, for n below 32.
HR_FN u32 funnel(u32 lo, u32 hi, u32 n) {
	u32 out;
	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(lo), "r"(hi), "r"(n));
	return out;
}
// funnelLeft is the high word of (hi:lo) << n, where of n the low five bits count.
HR_FN u32 funnelLeft(u32 lo, u32 hi, u32 n) {
	u32 out;
	asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(lo), "r"(hi), "r"(n));
	return out;
}
// bitAt is bit n, or 0 from 32 on.
HR_FN u32 bitAt(u32 n) {
	u32 out;
	asm("shl.b32 %0, 1, %1;" : "=r"(out) : "r"(n)); // which clamps
	return out;
}
// choose is a if v has a bit of the mask, else b: in fewer steps than the compiler takes.
HR_FN u32 choose(u32 v, u32 mask, u32 a, u32 b) {
	u32 out;
	asm("{ .reg .pred q; .reg .u32 t; and.b32 t, %1, %2; setp.ne.u32 q, t, 0; selp.b32 %0, %3, %4, q; }" : "=r"(out) : "r"(v), "r"(mask), "r"(a), "r"(b));
	return out;
}
// orAll is the or of all lanes' v.
HR_FN u32 orAll(u32 v) {
	u32 out;
	asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(out) : "r"(v));
	return out;
}
HR_FN u32 mulHigh(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
// dot adds the products of the bytes of a and b.
HR_FN u32 dot(u32 a, u32 b, u32 sum) {
	u32 out;
	asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
	return out;
}
HR_FN float reciprocal(float v) {
	float out;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
	return out;
}

// Place is an address in shared memory as the instructions take it.
typedef u32 Place;
HR_FN Place placeOf(const void *shared) {
	u32 out;
	asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(out) : "l"(shared));
	return out;
}
// constantPlaceOf is for a variable: the compiler sees that its place is a constant, and keeps no register for it.
#if defined(__clang__)
HR_FN Place constantPlaceOf(const void *shared) { return placeOf(shared); }
#else
HR_FN Place constantPlaceOf(const void *shared) { return (u32)__cvta_generic_to_shared(shared); }
#endif
// within is a place in an array that begins at a multiple of its size.
HR_FN Place within(Place array, u32 offset) { return array | offset; }
HR_FN u32 halfAt(Place p) {
	u16 v;
	asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(p));
	return v;
}
HR_FN u32 wordAt(Place p) {
	u32 v;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(p));
	return v;
}
// partAt is the word at a place, of which the bytes from one on and before another are used: no others, and
// if that is none, it is not read.
HR_FN u32 partAt(Place p, i32 from, i32 stop) {
	u32 v = 0;
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %2, 0; @q ld.shared.u32 %0, [%1]; }" : "+r"(v) : "r"(p), "r"((u32)(stop > (from > 0 ? from : 0))));
	return v;
}
HR_FN u32 byteAt(Place p) {
	u32 v;
	asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(p));
	return v;
}
// wordFrom is four bytes at any place, at an offset from one that is a multiple of four. It reads no word but those
// that hold one of them.
HR_FN u32 wordFrom(Place p, u32 at) { return funnel(wordAt(p + (at & ~3u)), wordAt(p + ((at + 3) & ~3u)), 8 * (at & 3)); }
// counts is whether a byte that is read is used, for a build that looks for races; for others it is true.
HR_FN bool counts(bool) { return true; }
HR_FN void putByte(Place p, u32 v) { asm volatile("st.shared.u8 [%0], %1;" ::"r"(p), "r"(v) : "memory"); }
HR_FN void putHalf(Place p, u32 v) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(p), "h"((u16)v) : "memory"); }
HR_FN void vectorAt(Place p, u32 *w) {
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(p));
}
HR_FN void putVectorAt(Place p, const u32 *w) {
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}
// apart is how far a place is behind another, moved a place so far behind another: modulo 2^32.
HR_FN u32 apart(Place a, Place b) { return a - b; }
HR_FN Place moved(Place p, u32 n) { return p + n; }

// fetchWord begins to copy an aligned word of global memory to shared memory, of which the bytes from one on and
// before another are wanted. Fetches up to endFetch are a group.
HR_FN void fetchWord(Place to, const u8 *from, i32, i32) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
HR_FN void endFetch() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// awaitFetch waits for all but the last PENDING groups of this thread.
template <int PENDING> HR_FN void awaitFetch() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
// wordsAt reads two words, at a multiple of 8.
HR_FN void wordsAt(Place p, u32 &first, u32 &second) { asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(p)); }

} // namespace hr

#else // host

#include <stdint.h>
#include <string.h>

#if defined(HR_RACES)
#include "races.h"
#define HR_FN inline __attribute__((always_inline)) // reports have the lines of all callers
#define HR_UNSEEN inline __attribute__((no_sanitize("thread")))
#define HR_LAUNCHER static // one thread launches: what is thread_local is shared memory
#else
#define HR_FN inline
#define HR_UNSEEN inline
#define HR_LAUNCHER static thread_local
#endif
#define HR_FAR inline
#define HR_KERNEL(block, blocks) extern "C" void
#define HR_SHARED static thread_local
#define HR_DYNAMIC(T, name, n) static thread_local T name[n]
#define HR_CONSTANT static constexpr
#define HR_UNROLL
#define HR_ROLLED

namespace hr {

// The thread that runs: set by the launcher.
struct Self {
	u32 thread, threads, block, blocks;
};
HR_LAUNCHER Self self;

HR_FN u32 thread() { return self.thread; }
HR_FN u32 threads() { return self.threads; }
HR_FN u32 block() { return self.block; }
HR_FN u32 blocks() { return self.blocks; }

#if defined(HR_FIBERS)
enum { LANES = 32 };
void syncBlock();
void syncWarp();
u32 shuffle(u32 v, u32 from);
u32 ballot(bool v);
u32 match(u32 v);
u32 orAll(u32 v);
#else
enum { LANES = 1 };
HR_FN void syncBlock() {}
HR_FN void syncWarp() {}
HR_FN u32 shuffle(u32 v, u32) { return v; }
HR_FN u32 ballot(bool v) { return v; }
HR_FN u32 match(u32) { return 1; }
HR_FN u32 orAll(u32 v) { return v; }
#endif
HR_FN u32 lowest(u32 bits) { return (u32)__builtin_ctz(bits); }
HR_FN u32 count(u32 bits) { return (u32)__builtin_popcount(bits); }
HR_FN u32 highest(u32 bits) { return 31 - (u32)__builtin_clz(bits); }
HR_FN void prefetch(const void *) {}

// What a build that looks for races is told: that a GPU reads these n bytes, though not all are used, and that
// the next access of n bytes is an atomic one.
#if defined(HR_RACES)
HR_FN void wide(const void *p, u32 n) { hr_races_wide(p, n); }
HR_FN void atomic(const void *p, u32 n) { hr_races_atomic(p, n); }
#else
HR_FN void wide(const void *, u32) {}
HR_FN void atomic(const void *, u32) {}
#endif
template <class T> HR_UNSEEN T added(T *p, T n) {
	T before = *p;
	*p += n;
	return before;
}
HR_UNSEEN void raised(u32 *p, u32 n) { *p = *p < n ? n : *p; }
HR_UNSEEN u32 unraised(const u32 *p) { return *p; }
template <class T> HR_FN T fetchAdd(T *p, T n) {
	atomic(p, sizeof *p);
	return added(p, n);
}
HR_FN u32 take(u32 *counter) { return fetchAdd(counter, 1u); }
HR_FN u32 current(const u32 *p) {
	atomic(p, sizeof *p);
	return unraised(p);
}
HR_FN void raise(u32 *p, u32 n) {
	atomic(p, sizeof *p);
	raised(p, n);
}

HR_FN u32 permute(u32 a, u32 b, u32 selector) {
	u64 both = (u64)b << 32 | a;
	u32 out = 0;
	for (int i = 0; i < 4; i++) out |= (u32)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
	return out;
}
HR_FN u32 funnel(u32 lo, u32 hi, u32 n) { return (u32)(((u64)hi << 32 | lo) >> (n & 31)); }
HR_FN u32 funnelLeft(u32 lo, u32 hi, u32 n) { return (u32)(((u64)hi << 32 | lo) << (n & 31) >> 32); }
HR_FN u32 bitAt(u32 n) { return n < 32 ? 1u << n : 0; }
HR_FN u32 choose(u32 v, u32 mask, u32 a, u32 b) { return v & mask ? a : b; }
HR_FN u32 mulHigh(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
HR_FN u32 dot(u32 a, u32 b, u32 sum) {
	for (u32 i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
	return sum;
}
HR_FN float reciprocal(float v) { return 1 / v; }

typedef u8 *Place;
HR_FN Place placeOf(const void *shared) { return (u8 *)shared; }
HR_FN Place constantPlaceOf(const void *shared) { return placeOf(shared); }
HR_FN Place within(Place array, u32 offset) { return array + offset; }
HR_FN u32 halfAt(Place p) {
	u16 v;
	memcpy(&v, p, 2);
	return v;
}
HR_FN u32 wordAt(Place p) {
	u32 v;
	memcpy(&v, p, 4);
	return v;
}
HR_FN u32 partAt(Place p, i32 from, i32 stop) {
	u32 v = 0;
	from = from > 0 ? from : 0;
	stop = stop < 4 ? stop : 4;
	if (from < stop) wide(p, 4);
	for (i32 i = from; i < stop; i++) v |= (u32)p[i] << 8 * i;
	return v;
}
HR_FN u32 byteAt(Place p) { return *p; }
HR_FN u32 wordFrom(Place p, u32 at) {
	wide(p + (at & ~3u), at & 3 ? 8 : 4);
	return wordAt(p + at);
}
#if defined(HR_RACES)
HR_FN bool counts(bool v) { return v; }
#else
HR_FN bool counts(bool) { return true; }
#endif
HR_FN void putByte(Place p, u32 v) { *p = (u8)v; }
HR_FN void putHalf(Place p, u32 v) {
	u16 h = (u16)v;
	memcpy(p, &h, 2);
}
HR_FN void vectorAt(Place p, u32 *w) { memcpy(w, p, 16); }
HR_FN void putVectorAt(Place p, const u32 *w) { memcpy(p, w, 16); }
HR_FN u32 apart(Place a, Place b) { return (u32)(a - b); }
HR_FN Place moved(Place p, u32 n) { return p + (i32)n; }
// fetchPart fetches n bytes, of which those from first and before stop are wanted.
#if defined(HR_RACES)
HR_FN void fetchPart(Place to, const u8 *from, u32 n, u32 first, u32 stop) { hr_races_fetch(to, from, n, first, stop); }
HR_FN void endFetch() { hr_races_endFetch(); }
template <int PENDING> HR_FN void awaitFetch() { hr_races_awaitFetch(PENDING); }
#else
HR_FN void fetchPart(Place to, const u8 *from, u32, u32 first, u32 stop) { memcpy(to + first, from + first, stop - first); }
HR_FN void endFetch() {}
template <int PENDING> HR_FN void awaitFetch() {}
#endif
HR_FN void fetchWord(Place to, const u8 *from, i32 first, i32 stop) { fetchPart(to, from, 4, first > 0 ? first : 0, stop < 4 ? stop : 4); }
HR_FN void wordsAt(Place p, u32 &first, u32 &second) {
	first = wordAt(p);
	second = wordAt(p + 4);
}

} // namespace hr

#endif

namespace hr {

HR_FN u32 lane() { return thread() % LANES; }
HR_FN u32 warp() { return thread() / LANES; }
HR_FN u32 warps() { return threads() / LANES; }

// below masks the lanes before this one.
HR_FN u32 below() { return (1u << lane()) - 1; }

template <class T> HR_FN T least(T a, T b) { return a < b ? a : b; }
template <class T> HR_FN T most(T a, T b) { return a > b ? a : b; }

// lanesUpTo is the number of lanes whose v is not above limit, for v that grow from lane to
// lane, in the last lane beyond the limit.
HR_FN u32 lanesUpTo(u32 v, u32 limit) {
	u32 n = 0;
	HR_UNROLL for (u32 step = LANES / 2; step > 0; step /= 2) {
		if (shuffle(v, n + step - 1) <= limit) n += step;
	}
	return n;
}

} // namespace hr
