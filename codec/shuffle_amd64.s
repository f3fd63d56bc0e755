//go:build !purego

#include "textflag.h"

// INTERLEAVE8 turns 32 bytes of each of eight planes in Y0-Y7 into 32 words of
// eight bytes, and stores them at DI in order. The unpack instructions work on
// the two halves of a register apart, so that each of Y8-Y15 ends with two words
// of the first half of the planes and two of the second.
#define INTERLEAVE8 \
	VPUNPCKLBW Y1, Y0, Y8; \
	VPUNPCKHBW Y1, Y0, Y9; \
	VPUNPCKLBW Y3, Y2, Y10; \
	VPUNPCKHBW Y3, Y2, Y11; \
	VPUNPCKLBW Y5, Y4, Y12; \
	VPUNPCKHBW Y5, Y4, Y13; \
	VPUNPCKLBW Y7, Y6, Y14; \
	VPUNPCKHBW Y7, Y6, Y15; \
	VPUNPCKLWD Y10, Y8, Y0; \
	VPUNPCKHWD Y10, Y8, Y1; \
	VPUNPCKLWD Y11, Y9, Y2; \
	VPUNPCKHWD Y11, Y9, Y3; \
	VPUNPCKLWD Y14, Y12, Y4; \
	VPUNPCKHWD Y14, Y12, Y5; \
	VPUNPCKLWD Y15, Y13, Y6; \
	VPUNPCKHWD Y15, Y13, Y7; \
	VPUNPCKLDQ Y4, Y0, Y8; \
	VPUNPCKHDQ Y4, Y0, Y9; \
	VPUNPCKLDQ Y5, Y1, Y10; \
	VPUNPCKHDQ Y5, Y1, Y11; \
	VPUNPCKLDQ Y6, Y2, Y12; \
	VPUNPCKHDQ Y6, Y2, Y13; \
	VPUNPCKLDQ Y7, Y3, Y14; \
	VPUNPCKHDQ Y7, Y3, Y15; \
	VPERM2I128 $0x20, Y9, Y8, Y0; \
	VPERM2I128 $0x20, Y11, Y10, Y1; \
	VPERM2I128 $0x20, Y13, Y12, Y2; \
	VPERM2I128 $0x20, Y15, Y14, Y3; \
	VPERM2I128 $0x31, Y9, Y8, Y4; \
	VPERM2I128 $0x31, Y11, Y10, Y5; \
	VPERM2I128 $0x31, Y13, Y12, Y6; \
	VPERM2I128 $0x31, Y15, Y14, Y7; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI); \
	VMOVDQU Y4, 128(DI); \
	VMOVDQU Y5, 160(DI); \
	VMOVDQU Y6, 192(DI); \
	VMOVDQU Y7, 224(DI)

// LOAD8 loads 32 bytes of each of eight planes; R8 is the first plane's address,
// DX the distance of planes and R9 three times that.
#define LOAD8 \
	VMOVDQU (R8), Y0; \
	VMOVDQU (R8)(DX*1), Y1; \
	VMOVDQU (R8)(DX*2), Y2; \
	VMOVDQU (R8)(R9*1), Y3; \
	LEAQ    (R8)(DX*4), R10; \
	VMOVDQU (R10), Y4; \
	VMOVDQU (R10)(DX*1), Y5; \
	VMOVDQU (R10)(DX*2), Y6; \
	VMOVDQU (R10)(R9*1), Y7

// The unshuffle loops take 32 elements at a time. The last pass steps back to end
// where the planes do: CX is what is left less 32.

// func unshuffle2AVX2(dst, src *byte, n int)
TEXT ·unshuffle2AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), R8
	MOVQ n+16(FP), DX
	MOVQ DX, CX
	SUBQ $32, CX

loop:
	VMOVDQU    (R8), Y0
	VMOVDQU    (R8)(DX*1), Y1
	VPUNPCKLBW Y1, Y0, Y2
	VPUNPCKHBW Y1, Y0, Y3
	VPERM2I128 $0x20, Y3, Y2, Y0
	VPERM2I128 $0x31, Y3, Y2, Y1
	VMOVDQU    Y0, (DI)
	VMOVDQU    Y1, 32(DI)
	ADDQ       $32, R8
	ADDQ       $64, DI
	SUBQ       $32, CX
	JGE        loop
	CMPQ       CX, $-32
	JEQ        done
	ADDQ       CX, R8
	LEAQ       (DI)(CX*2), DI
	XORQ       CX, CX
	JMP        loop

done:
	VZEROUPPER
	RET

// func unshuffle4AVX2(dst, src *byte, n int)
TEXT ·unshuffle4AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), R8
	MOVQ n+16(FP), DX
	LEAQ (DX)(DX*2), R9
	MOVQ DX, CX
	SUBQ $32, CX

loop:
	VMOVDQU    (R8), Y0
	VMOVDQU    (R8)(DX*1), Y1
	VMOVDQU    (R8)(DX*2), Y2
	VMOVDQU    (R8)(R9*1), Y3
	VPUNPCKLBW Y1, Y0, Y4
	VPUNPCKHBW Y1, Y0, Y5
	VPUNPCKLBW Y3, Y2, Y6
	VPUNPCKHBW Y3, Y2, Y7
	VPUNPCKLWD Y6, Y4, Y0
	VPUNPCKHWD Y6, Y4, Y1
	VPUNPCKLWD Y7, Y5, Y2
	VPUNPCKHWD Y7, Y5, Y3
	VPERM2I128 $0x20, Y1, Y0, Y4
	VPERM2I128 $0x20, Y3, Y2, Y5
	VPERM2I128 $0x31, Y1, Y0, Y6
	VPERM2I128 $0x31, Y3, Y2, Y7
	VMOVDQU    Y4, (DI)
	VMOVDQU    Y5, 32(DI)
	VMOVDQU    Y6, 64(DI)
	VMOVDQU    Y7, 96(DI)
	ADDQ       $32, R8
	ADDQ       $128, DI
	SUBQ       $32, CX
	JGE        loop
	CMPQ       CX, $-32
	JEQ        done
	ADDQ       CX, R8
	LEAQ       (DI)(CX*4), DI
	XORQ       CX, CX
	JMP        loop

done:
	VZEROUPPER
	RET

// func unshuffle8AVX2(dst, src *byte, n int)
TEXT ·unshuffle8AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), R8
	MOVQ n+16(FP), DX
	LEAQ (DX)(DX*2), R9
	MOVQ DX, CX
	SUBQ $32, CX

loop:
	LOAD8
	INTERLEAVE8
	ADDQ $32, R8
	ADDQ $256, DI
	SUBQ $32, CX
	JGE  loop
	CMPQ CX, $-32
	JEQ  done
	ADDQ CX, R8
	LEAQ (DI)(CX*8), DI
	XORQ CX, CX
	JMP  loop

done:
	VZEROUPPER
	RET

// EXCHANGE swaps the bits of a under mask<<shift with those of b under mask: one
// of the blocks off the diagonal with its mirror image.
#define EXCHANGE(shift, mask, a, b) \
	VPSRLW $shift, a, Y8; \
	VPXOR  b, Y8, Y8; \
	VPAND  mask, Y8, Y8; \
	VPXOR  Y8, b, b; \
	VPSLLW $shift, Y8, Y8; \
	VPXOR  Y8, a, a

DATA nibbles<>+0(SB)/4, $0x0f0f0f0f
GLOBL nibbles<>(SB), RODATA|NOPTR, $4

DATA pairs<>+0(SB)/4, $0x33333333
GLOBL pairs<>(SB), RODATA|NOPTR, $4

DATA evens<>+0(SB)/4, $0x55555555
GLOBL evens<>(SB), RODATA|NOPTR, $4

// func bitPlanesAVX2(dst, src *byte, row, groups int)
//
// Eight bit planes, row bytes apart, become bytes: 256 a group. Bit i of byte j
// of plane b is bit b of byte 8*j+i of the result, so that eight registers of
// planes are a matrix of bits to transpose and then bytes to interleave.
TEXT ·bitPlanesAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), R8
	MOVQ row+16(FP), DX
	MOVQ groups+24(FP), CX
	LEAQ (DX)(DX*2), R9

loop:
	LOAD8
	VPBROADCASTD nibbles<>(SB), Y9
	VPBROADCASTD pairs<>(SB), Y10
	VPBROADCASTD evens<>(SB), Y11
	EXCHANGE(4, Y9, Y0, Y4)
	EXCHANGE(4, Y9, Y1, Y5)
	EXCHANGE(4, Y9, Y2, Y6)
	EXCHANGE(4, Y9, Y3, Y7)
	EXCHANGE(2, Y10, Y0, Y2)
	EXCHANGE(2, Y10, Y1, Y3)
	EXCHANGE(2, Y10, Y4, Y6)
	EXCHANGE(2, Y10, Y5, Y7)
	EXCHANGE(1, Y11, Y0, Y1)
	EXCHANGE(1, Y11, Y2, Y3)
	EXCHANGE(1, Y11, Y4, Y5)
	EXCHANGE(1, Y11, Y6, Y7)
	INTERLEAVE8
	ADDQ $32, R8
	ADDQ $256, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
