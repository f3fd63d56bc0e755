package kernels

import "encoding/binary"

// The kernels of zstd, in the order in which they are launched. Each takes
// ZstdParams. ZstdLiterals and ZstdSequences may run beside each other; each of the
// others needs all that come before it. Any grid is right.
const (
	ZstdScan      = "hr_zstd_scan"
	ZstdTables    = "hr_zstd_tables"
	ZstdCount     = "hr_zstd_count"
	ZstdOrder     = "hr_zstd_order"
	ZstdLiterals  = "hr_zstd_literals"
	ZstdSequences = "hr_zstd_sequences"
	ZstdExecute   = "hr_zstd_execute"
	// ZstdExecuteWide is for few chunks in its place: more threads work on each.
	ZstdExecuteWide = "hr_zstd_execute_wide"
	ZstdFinish      = "hr_zstd_finish"
)

// ZstdKernels lists them.
func ZstdKernels() []string {
	return []string{ZstdScan, ZstdTables, ZstdCount, ZstdOrder, ZstdLiterals, ZstdSequences, ZstdExecute, ZstdExecuteWide, ZstdFinish}
}

// Threads in a block of the kernels of zstd.
const (
	ZstdScanBlock        = 64
	ZstdTablesBlock      = 128
	ZstdOrderBlock       = 256 // ZstdCount and ZstdOrder
	ZstdLiteralsBlock    = 64
	ZstdSequencesBlock   = 32
	ZstdExecuteBlock     = 128
	ZstdExecuteWideBlock = 256
	ZstdFinishBlock      = 256
)

// ZstdSequencesShared is the dynamic shared memory of a block of ZstdSequences: four
// blocks have all that an SM of compute capability 9.0 gives.
const ZstdSequencesShared = 55296

// Bytes of what lies in device memory.
const (
	ZstdParamsBytes  = 40
	ZstdHeadBytes    = 6896 // the begin of the work memory
	ZstdBlockBytes   = 128
	ZstdSegmentBytes = 24
)

// ZstdParams is the parameter of the kernels of zstd: the addresses of N chunks, of Zstd or
// BloscZstd, of the status words and of the work memory, which is ZstdWorkBytes long and begins at
// a multiple of 16. Its first ZstdHeadBytes must be zero before the first kernel.
//
// Blocks is how many blocks of frames it has room for, and Arena how many bytes of
// tables, literals and sequences. A chunk that finds no room is Unsupported.
type ZstdParams struct {
	Chunks, Status, Work uint64
	Arena                uint64
	N, Blocks            uint32
}

// Append writes the parameter as the kernels read it.
func (p ZstdParams) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.Chunks)
	dst = binary.LittleEndian.AppendUint64(dst, p.Status)
	dst = binary.LittleEndian.AppendUint64(dst, p.Work)
	dst = binary.LittleEndian.AppendUint64(dst, p.Arena)
	dst = binary.LittleEndian.AppendUint32(dst, p.N)
	return binary.LittleEndian.AppendUint32(dst, p.Blocks)
}

// ZstdWorkBytes is the size of the work memory with room for so many blocks and so many
// bytes of arena.
func ZstdWorkBytes(blocks int, arena int64) int64 {
	round := func(bytes int64) int64 { return (bytes + 15) / 16 * 16 }
	return ZstdHeadBytes + int64(blocks)*ZstdBlockBytes + round(int64(blocks)*ZstdSegmentBytes) + round(int64(blocks)*8) + arena
}
