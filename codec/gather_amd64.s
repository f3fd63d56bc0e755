//go:build !purego

#include "textflag.h"

// The transpose loops turn tiles of a matrix: column j of a tile lies contiguous
// at src+j*srcStride, and row r goes to dst+r*dstStride. The tiles follow one
// another down the columns.

#define ARGUMENTS \
	MOVQ dst+0(FP), DI;        \
	MOVQ dstStride+8(FP), R8;  \
	MOVQ src+16(FP), SI;       \
	MOVQ srcStride+24(FP), DX; \
	MOVQ tiles+32(FP), CX;     \
	LEAQ (DX)(DX*2), R9;       \
	LEAQ (R8)(R8*2), R11

// NEXT goes on to the tile below, of 8 rows and so many bytes in a column.
#define NEXT(bytes) \
	ADDQ $bytes, SI;       \
	LEAQ (DI)(R8*8), DI;   \
	DECQ CX;               \
	JNZ  loop

// func transpose1AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)
TEXT ·transpose1AVX2(SB), NOSPLIT, $0-40
	ARGUMENTS

loop:
	LEAQ       (SI)(DX*4), R10
	LEAQ       (DI)(R8*4), R12
	VMOVQ      (SI), X0
	VMOVQ      (SI)(DX*1), X1
	VMOVQ      (SI)(DX*2), X2
	VMOVQ      (SI)(R9*1), X3
	VMOVQ      (R10), X4
	VMOVQ      (R10)(DX*1), X5
	VMOVQ      (R10)(DX*2), X6
	VMOVQ      (R10)(R9*1), X7
	VPUNPCKLBW X1, X0, X8
	VPUNPCKLBW X3, X2, X9
	VPUNPCKLBW X5, X4, X10
	VPUNPCKLBW X7, X6, X11
	VPUNPCKLWD X9, X8, X0
	VPUNPCKHWD X9, X8, X1
	VPUNPCKLWD X11, X10, X2
	VPUNPCKHWD X11, X10, X3
	VPUNPCKLDQ X2, X0, X4
	VPUNPCKHDQ X2, X0, X5
	VPUNPCKLDQ X3, X1, X6
	VPUNPCKHDQ X3, X1, X7
	VMOVQ      X4, (DI)
	VMOVHPS    X4, (DI)(R8*1)
	VMOVQ      X5, (DI)(R8*2)
	VMOVHPS    X5, (DI)(R11*1)
	VMOVQ      X6, (R12)
	VMOVHPS    X6, (R12)(R8*1)
	VMOVQ      X7, (R12)(R8*2)
	VMOVHPS    X7, (R12)(R11*1)
	NEXT(8)
	VZEROUPPER
	RET

// func transpose2AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)
TEXT ·transpose2AVX2(SB), NOSPLIT, $0-40
	ARGUMENTS

loop:
	LEAQ        (SI)(DX*4), R10
	LEAQ        (DI)(R8*4), R12
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(DX*1), X1
	VMOVDQU     (SI)(DX*2), X2
	VMOVDQU     (SI)(R9*1), X3
	VMOVDQU     (R10), X4
	VMOVDQU     (R10)(DX*1), X5
	VMOVDQU     (R10)(DX*2), X6
	VMOVDQU     (R10)(R9*1), X7
	VPUNPCKLWD  X1, X0, X8
	VPUNPCKHWD  X1, X0, X9
	VPUNPCKLWD  X3, X2, X10
	VPUNPCKHWD  X3, X2, X11
	VPUNPCKLWD  X5, X4, X12
	VPUNPCKHWD  X5, X4, X13
	VPUNPCKLWD  X7, X6, X14
	VPUNPCKHWD  X7, X6, X15
	VPUNPCKLDQ  X10, X8, X0
	VPUNPCKHDQ  X10, X8, X1
	VPUNPCKLDQ  X11, X9, X2
	VPUNPCKHDQ  X11, X9, X3
	VPUNPCKLDQ  X14, X12, X4
	VPUNPCKHDQ  X14, X12, X5
	VPUNPCKLDQ  X15, X13, X6
	VPUNPCKHDQ  X15, X13, X7
	VPUNPCKLQDQ X4, X0, X8
	VPUNPCKHQDQ X4, X0, X9
	VPUNPCKLQDQ X5, X1, X10
	VPUNPCKHQDQ X5, X1, X11
	VPUNPCKLQDQ X6, X2, X12
	VPUNPCKHQDQ X6, X2, X13
	VPUNPCKLQDQ X7, X3, X14
	VPUNPCKHQDQ X7, X3, X15
	VMOVDQU     X8, (DI)
	VMOVDQU     X9, (DI)(R8*1)
	VMOVDQU     X10, (DI)(R8*2)
	VMOVDQU     X11, (DI)(R11*1)
	VMOVDQU     X12, (R12)
	VMOVDQU     X13, (R12)(R8*1)
	VMOVDQU     X14, (R12)(R8*2)
	VMOVDQU     X15, (R12)(R11*1)
	NEXT(16)
	VZEROUPPER
	RET

// func transpose4AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)
TEXT ·transpose4AVX2(SB), NOSPLIT, $0-40
	ARGUMENTS

loop:
	LEAQ        (SI)(DX*4), R10
	LEAQ        (DI)(R8*4), R12
	VMOVDQU     (SI), Y0
	VMOVDQU     (SI)(DX*1), Y1
	VMOVDQU     (SI)(DX*2), Y2
	VMOVDQU     (SI)(R9*1), Y3
	VMOVDQU     (R10), Y4
	VMOVDQU     (R10)(DX*1), Y5
	VMOVDQU     (R10)(DX*2), Y6
	VMOVDQU     (R10)(R9*1), Y7
	VPUNPCKLDQ  Y1, Y0, Y8
	VPUNPCKHDQ  Y1, Y0, Y9
	VPUNPCKLDQ  Y3, Y2, Y10
	VPUNPCKHDQ  Y3, Y2, Y11
	VPUNPCKLDQ  Y5, Y4, Y12
	VPUNPCKHDQ  Y5, Y4, Y13
	VPUNPCKLDQ  Y7, Y6, Y14
	VPUNPCKHDQ  Y7, Y6, Y15
	VPUNPCKLQDQ Y10, Y8, Y0
	VPUNPCKHQDQ Y10, Y8, Y1
	VPUNPCKLQDQ Y11, Y9, Y2
	VPUNPCKHQDQ Y11, Y9, Y3
	VPUNPCKLQDQ Y14, Y12, Y4
	VPUNPCKHQDQ Y14, Y12, Y5
	VPUNPCKLQDQ Y15, Y13, Y6
	VPUNPCKHQDQ Y15, Y13, Y7
	VPERM2I128  $0x20, Y4, Y0, Y8
	VPERM2I128  $0x20, Y5, Y1, Y9
	VPERM2I128  $0x20, Y6, Y2, Y10
	VPERM2I128  $0x20, Y7, Y3, Y11
	VPERM2I128  $0x31, Y4, Y0, Y12
	VPERM2I128  $0x31, Y5, Y1, Y13
	VPERM2I128  $0x31, Y6, Y2, Y14
	VPERM2I128  $0x31, Y7, Y3, Y15
	VMOVDQU     Y8, (DI)
	VMOVDQU     Y9, (DI)(R8*1)
	VMOVDQU     Y10, (DI)(R8*2)
	VMOVDQU     Y11, (DI)(R11*1)
	VMOVDQU     Y12, (R12)
	VMOVDQU     Y13, (R12)(R8*1)
	VMOVDQU     Y14, (R12)(R8*2)
	VMOVDQU     Y15, (R12)(R11*1)
	NEXT(32)
	VZEROUPPER
	RET

// COLUMNS4 turns a tile of 4 by 4 words of 8 bytes.
#define COLUMNS4(s, d) \
	VMOVDQU     (s), Y0;              \
	VMOVDQU     (s)(DX*1), Y1;        \
	VMOVDQU     (s)(DX*2), Y2;        \
	VMOVDQU     (s)(R9*1), Y3;        \
	VPUNPCKLQDQ Y1, Y0, Y4;           \
	VPUNPCKHQDQ Y1, Y0, Y5;           \
	VPUNPCKLQDQ Y3, Y2, Y6;           \
	VPUNPCKHQDQ Y3, Y2, Y7;           \
	VPERM2I128  $0x20, Y6, Y4, Y0;    \
	VPERM2I128  $0x20, Y7, Y5, Y1;    \
	VPERM2I128  $0x31, Y6, Y4, Y2;    \
	VPERM2I128  $0x31, Y7, Y5, Y3;    \
	VMOVDQU     Y0, (d);              \
	VMOVDQU     Y1, (d)(R8*1);        \
	VMOVDQU     Y2, (d)(R8*2);        \
	VMOVDQU     Y3, (d)(R11*1)

// func transpose8AVX2(dst *byte, dstStride int, src *byte, srcStride, tiles int)
TEXT ·transpose8AVX2(SB), NOSPLIT, $0-40
	ARGUMENTS

loop:
	LEAQ (SI)(DX*4), R10
	LEAQ (DI)(R8*4), R12
	COLUMNS4(SI, DI)
	ADDQ $32, SI
	COLUMNS4(SI, R12)
	ADDQ $32, DI
	ADDQ $32, R12
	COLUMNS4(R10, DI)
	ADDQ $32, R10
	COLUMNS4(R10, R12)
	SUBQ $32, DI
	NEXT(32)
	VZEROUPPER
	RET

// func reverseAVX2(dst, src *byte, n int, order *[16]byte)
//
// The n bytes at src, a multiple of 32, go to dst, last vector first. order turns
// the elements within 16 bytes.
TEXT ·reverseAVX2(SB), NOSPLIT, $0-32
	MOVQ           dst+0(FP), DI
	MOVQ           src+8(FP), SI
	MOVQ           n+16(FP), CX
	MOVQ           order+24(FP), AX
	VBROADCASTI128 (AX), Y1

loop:
	VMOVDQU    -32(SI)(CX*1), Y0
	VPSHUFB    Y1, Y0, Y0
	VPERM2I128 $0x01, Y0, Y0, Y0
	VMOVDQU    Y0, (DI)
	ADDQ       $32, DI
	SUBQ       $32, CX
	JNZ        loop
	VZEROUPPER
	RET
