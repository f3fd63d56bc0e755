// Polynomials over GF(2), modulo that of a checksum. The highest bit of a number is the coefficient
// of 1, the lowest that of x^31, as usual for checksums whose bytes have their lowest bit first.
#pragma once
#include "simt.h"

namespace hr {

template <u32 MODULUS> struct Polynomial {
	enum : u32 { ONE = 0x80000000 };

	static HR_FN constexpr u32 timesX(u32 v) { return v >> 1 ^ (v & 1 ? MODULUS : 0u); }

	// overX is v / x.
	static HR_FN constexpr u32 overX(u32 v) { return v & ONE ? (v ^ MODULUS) << 1 | 1 : v << 1; }

	static HR_FAR constexpr u32 product(u32 a, u32 b) {
		u32 sum = 0;
		HR_UNROLL for (u32 k = 0; k < 32; k++) {
			sum ^= a & ONE >> k ? b : 0u;
			b = timesX(b);
		}
		return sum;
	}

	// power is base^n.
	static HR_FN constexpr u32 power(u32 base, u32 n) {
		u32 out = ONE, square = base;
		HR_ROLLED for (; n > 0; n /= 2) {
			if (n % 2) out = product(out, square);
			square = product(square, square);
		}
		return out;
	}
};

} // namespace hr
