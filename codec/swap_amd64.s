//go:build !purego

#include "textflag.h"

DATA reverse2<>+0(SB)/8, $0x0607040502030001
DATA reverse2<>+8(SB)/8, $0x0e0f0c0d0a0b0809
GLOBL reverse2<>(SB), RODATA|NOPTR, $16

DATA reverse4<>+0(SB)/8, $0x0405060700010203
DATA reverse4<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL reverse4<>(SB), RODATA|NOPTR, $16

DATA reverse8<>+0(SB)/8, $0x0001020304050607
DATA reverse8<>+8(SB)/8, $0x08090a0b0c0d0e0f
GLOBL reverse8<>(SB), RODATA|NOPTR, $16

// SWAP moves n bytes, a multiple of 32, by a byte order. It reads and writes the
// same offsets in step, so that dst may be src.
#define SWAP(order) \
	MOVQ dst+0(FP), DI;          \
	MOVQ src+8(FP), SI;          \
	MOVQ n+16(FP), CX;           \
	VBROADCASTI128 order, Y4;    \
	SUBQ $128, CX;               \
	JLT  single;                 \
block:                               \
	VMOVDQU (SI), Y0;            \
	VMOVDQU 32(SI), Y1;          \
	VMOVDQU 64(SI), Y2;          \
	VMOVDQU 96(SI), Y3;          \
	VPSHUFB Y4, Y0, Y0;          \
	VPSHUFB Y4, Y1, Y1;          \
	VPSHUFB Y4, Y2, Y2;          \
	VPSHUFB Y4, Y3, Y3;          \
	VMOVDQU Y0, (DI);            \
	VMOVDQU Y1, 32(DI);          \
	VMOVDQU Y2, 64(DI);          \
	VMOVDQU Y3, 96(DI);          \
	ADDQ $128, SI;               \
	ADDQ $128, DI;               \
	SUBQ $128, CX;               \
	JGE  block;                  \
single:                              \
	ADDQ $96, CX;                \
	JLT  done;                   \
loop:                                \
	VMOVDQU (SI), Y0;            \
	VPSHUFB Y4, Y0, Y0;          \
	VMOVDQU Y0, (DI);            \
	ADDQ $32, SI;                \
	ADDQ $32, DI;                \
	SUBQ $32, CX;                \
	JGE  loop;                   \
done:                                \
	VZEROUPPER;                  \
	RET

// func swap2AVX2(dst, src *byte, n int)
TEXT ·swap2AVX2(SB), NOSPLIT, $0-24
	SWAP(reverse2<>(SB))

// func swap4AVX2(dst, src *byte, n int)
TEXT ·swap4AVX2(SB), NOSPLIT, $0-24
	SWAP(reverse4<>(SB))

// func swap8AVX2(dst, src *byte, n int)
TEXT ·swap8AVX2(SB), NOSPLIT, $0-24
	SWAP(reverse8<>(SB))
