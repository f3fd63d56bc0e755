// Numbers of one element type as another: the rules of codec/cast.go, to the bit.
// NaNs are moved by their bits everywhere, for the conversions of a GPU make all
// NaNs the same one.
#pragma once
#include "abi.h"
#include "bytes.h"

namespace hr {

union Bits32 {
	float f;
	u32 u;
};
union Bits64 {
	double f;
	u64 u;
};

HR_FN float floatOf(u32 bits) {
	Bits32 b;
	b.u = bits;
	return b.f;
}
HR_FN u32 bitsOf(float v) {
	Bits32 b;
	b.f = v;
	return b.u;
}
HR_FN double doubleOf(u64 bits) {
	Bits64 b;
	b.u = bits;
	return b.f;
}
HR_FN u64 bitsOf(double v) {
	Bits64 b;
	b.f = v;
	return b.u;
}

// What follows takes and returns floating point numbers as bits.

HR_FN bool isNaN32(u32 b) { return (b & 0x7fffffff) > 0x7f800000; }
HR_FN bool isNaN64(u64 b) { return (b & ~0ull >> 1) > 0x7ffull << 52; }

HR_FN u32 bf16ToF32(u32 h) { return h << 16; }

HR_FN u32 f32ToBF16(u32 b) {
	if (isNaN32(b)) return b >> 16 | 0x40;
	return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

HR_FN u32 f16ToF32(u32 h) {
	u32 sign = (h & 0x8000) << 16, b = (h & 0x7fff) << 13;
	if (b > 0x1f << 23) return sign | 0x7fc00000 | b;
#if defined(HR_GPU)
	float v;
	asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"((u16)h));
	return bitsOf(v);
#else
	if (b == 0x1f << 23) return sign | 0x7f800000;
	if (b < 1 << 23) return sign | bitsOf((float)(h & 0x3ff) * 0x1p-24f); // subnormal
	return sign | (b + (112u << 23));
#endif
}

HR_FN u32 f32ToF16(u32 v) {
	u32 sign = v >> 16 & 0x8000, b = v & 0x7fffffff;
	if (b > 0x7f800000) return sign | 0x7e00 | (b >> 13 & 0x3ff);
#if defined(HR_GPU)
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(floatOf(v)));
	return h;
#else
	if (b >= 0x47800000) return sign | 0x7c00; // 2^16 and more
	// Subnormal: the units of 0.5 as a float are those of subnormal halves.
	if (b < 0x38800000) return sign | (bitsOf(floatOf(b) + 0.5f) - 0x3f000000);
	b -= 112u << 23;
	return sign | ((b + 0xfff + (b >> 13 & 1)) >> 13);
#endif
}

// f64ToF16 rounds once: the way through a float would round twice.
HR_FN u32 f64ToF16(u64 v) {
	u32 sign = (u32)(v >> 48) & 0x8000;
	u64 b = v & ~0ull >> 1;
	if (b > 0x7ffull << 52) return sign | 0x7e00 | ((u32)(b >> 42) & 0x3ff);
#if defined(HR_GPU)
	u16 h;
	asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(doubleOf(v)));
	return h;
#else
	if (b >= (1023ull + 16) << 52) return sign | 0x7c00;
	// As in f32ToF16: the unit of 2^28 as a double is 2^-24.
	if (b < (1023ull - 14) << 52) return sign | (u32)bitsOf(doubleOf(b) + 0x1p28);
	b -= (1023ull - 15) << 52;
	return sign | (u32)((b + (1ull << 41) - 1 + (b >> 42 & 1)) >> 42);
#endif
}

HR_FN u64 f32ToF64(u32 b) {
	if (isNaN32(b)) return (u64)(b >> 31) << 63 | 0x7ff8ull << 48 | (u64)(b & 0x7fffff) << 29;
	return bitsOf((double)floatOf(b));
}

HR_FN u32 f64ToF32(u64 b) {
	if (isNaN64(b)) return (u32)(b >> 63) << 31 | 0x7fc00000 | ((u32)(b >> 29) & 0x7fffff);
	return bitsOf((float)doubleOf(b));
}

HR_FN double product(double a, double b) {
#if defined(HR_GPU) && !defined(__clang__)
	return __dmul_rn(a, b);
#else
	return a * b; // compiled without contraction
#endif
}
HR_FN double sum(double a, double b) {
#if defined(HR_GPU) && !defined(__clang__)
	return __dadd_rn(a, b);
#else
	return a + b;
#endif
}

// scaled is x*scale + offset, each step rounded. The only NaN that it makes is
// that of infinity * 0, the default NaN of x86 and CUDA.
HR_FN u64 scaled(u64 x, double scale, double offset) {
	if (isNaN64(x)) return x;
	u64 y = bitsOf(product(doubleOf(x), scale));
	if (isNaN64(y)) return 0xfff8ull << 48;
	return bitsOf(sum(doubleOf(y), offset));
}

HR_FN u32 typeSize(u32 type) { // a nibble each, 0 for 16
	return type == C128 ? 16 : (u32)(0x0884228421842110ull >> 4 * type & 15);
}
HR_FN u32 wordSize(u32 type) { return type == C64 ? 4 : type == C128 ? 8 : typeSize(type); }

// A Value is a number between its load and its store, exact.
struct Value {
	enum Form { SIGNED, UNSIGNED, REAL };
	u64 bits; // of an i64, a u64 or a double
	u32 form;
};

HR_FN u64 loadBits(const u8 *p, u32 size, bool big) {
	u64 w = 0;
	HR_ROLLED for (u32 i = 0; i < size; i++) w |= (u64)loadByte(p + (big ? size - 1 - i : i)) << 8 * i;
	return w;
}

HR_FN void storeBits(u8 *p, u64 w, u32 size) {
	HR_ROLLED for (u32 i = 0; i < size; i++) storeByte(p + i, (u32)(w >> 8 * i));
}

HR_FN Value valueOf(u32 from, u64 w) {
	Value v = {w, Value::UNSIGNED};
	switch (from) {
	case BOOL: v.bits = w != 0; break;
	case I8: v.bits = (u64)(i64)(i8)w; break;
	case I16: v.bits = (u64)(i64)(i16)w; break;
	case I32: v.bits = (u64)(i64)(i32)w; break;
	case F16: v.bits = f32ToF64(f16ToF32((u32)w)); break;
	case BF16: v.bits = f32ToF64(bf16ToF32((u32)w)); break;
	case F32: v.bits = f32ToF64((u32)w); break;
	case F64: v.bits = isNaN64(w) ? w | 1ull << 51 : w; break;
	}
	if (from >= I8 && from <= I64) v.form = Value::SIGNED;
	if (from >= F16) v.form = Value::REAL;
	return v;
}

HR_FN u64 toF64(Value v) {
	if (v.form == Value::REAL) return v.bits;
	return bitsOf(v.form == Value::SIGNED ? (double)(i64)v.bits : (double)v.bits);
}

HR_FN u32 toF32(Value v) {
	if (v.form == Value::REAL) return f64ToF32(v.bits);
	return bitsOf(v.form == Value::SIGNED ? (float)(i64)v.bits : (float)v.bits);
}

// toSigned is the number truncated and clamped to lo..hi, lo = -hi-1.
HR_FN u64 toSigned(Value v, i64 hi) {
	i64 lo = -hi - 1;
	if (v.form == Value::UNSIGNED) return least(v.bits, (u64)hi);
	if (v.form == Value::SIGNED) return (u64)most(lo, least((i64)v.bits, hi));
	double x = doubleOf(v.bits);
	if (isNaN64(v.bits)) return 0;
	if (x >= 0x1p63) return (u64)hi;
	if (x < -0x1p63) return (u64)lo;
	return (u64)most(lo, least((i64)x, hi));
}

HR_FN u64 toUnsigned(Value v, u64 hi) {
	if (v.form == Value::UNSIGNED) return least(v.bits, hi);
	if (v.form == Value::SIGNED) return (i64)v.bits < 0 ? 0 : least(v.bits, hi);
	double x = doubleOf(v.bits);
	if (!(x > 0)) return 0; // NaN too
	if (x >= 0x1p64) return hi;
	u64 u = x >= 0x1p63 ? 1ull << 63 | (u64)(i64)(x - 0x1p63) : (u64)(i64)x;
	return least(u, hi);
}

HR_FN u64 bitsAs(u32 to, Value v) {
	switch (to) {
	case BOOL: return v.bits;
	case I8: return toSigned(v, 0x7f);
	case I16: return toSigned(v, 0x7fff);
	case I32: return toSigned(v, 0x7fffffff);
	case I64: return toSigned(v, (i64)(~0ull >> 1));
	case U8: return toUnsigned(v, 0xff);
	case U16: return toUnsigned(v, 0xffff);
	case U32: return toUnsigned(v, 0xffffffff);
	case U64: return toUnsigned(v, ~0ull);
	case F16: return f64ToF16(toF64(v));
	case BF16: return f32ToBF16(toF32(v));
	case F32: return toF32(v);
	}
	return toF64(v);
}

// convertible reports whether package codec has this conversion.
HR_FN bool convertible(u32 from, u32 to, bool affine) {
	if (from < BOOL || from >= TYPES || to < BOOL || to >= TYPES) return false;
	if (from != to && (from >= C64 || to >= C64 || to == BOOL)) return false;
	return !affine || (to < C64 && to != BOOL);
}

// identical reports whether elements keep their bits.
HR_FN bool identical(u32 from, u32 to, bool affine) { return from == to && !affine && from != BOOL; }

// convertElement converts one element of any types, anywhere.
HR_FN void convertElement(u8 *dst, const u8 *src, u32 from, u32 to, u32 flags, double scale, double offset) {
	bool big = flags & BIG, affine = flags & AFFINE;
	u32 word = wordSize(from), size = typeSize(from);
	u64 w = loadBits(src, word, big);
	if (identical(from, to, affine)) {
		storeBits(dst, w, word);
		if (size > word) storeBits(dst + word, loadBits(src + word, word, big), word);
		return;
	}
	if (from == BF16 && to == F32 && !affine) {
		storeBits(dst, w << 16, 4);
		return;
	}
	Value v = valueOf(from, w);
	if (affine) {
		v.bits = scaled(toF64(v), scale, offset);
		v.form = Value::REAL;
	}
	storeBits(dst, bitsAs(to, v), typeSize(to));
}

} // namespace hr
