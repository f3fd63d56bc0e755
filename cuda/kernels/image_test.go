package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// sources are the files that the image is made of, as in build.py.
var sources = []string{
	"abi.h", "assemble.h", "blosc.h", "blosclz.h", "bytes.h", "convert.h", "crc32c.h", "decode.h", "gather.h", "inflate.h", "inflate_block.h",
	"inflate_checksum.h", "inflate_codes.h", "inflate_input.h", "inflate_output.h", "kernels.cu", "lz4.h", "polynomial.h", "recent.h", "sequences.h", "shuffle.h",
	"simt.h", "tasks.h", "window.h", "zstd.h", "zstd_bits.h", "zstd_checksum.h", "zstd_execute.h", "zstd_finish.h", "zstd_fse.h", "zstd_history.h", "zstd_literals.h", "zstd_order.h",
	"zstd_scan.h", "zstd_sequences.h", "zstd_tables.h",
}

// The image must be that of the sources beside it: run make kernels.
func TestImageIsOfTheseSources(t *testing.T) {
	digest := sha256.New()
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		digest.Write(text)
	}
	want := hex.EncodeToString(digest.Sum(nil))
	if Hash != want {
		t.Errorf("Hash is %s, the sources' is %s: run make kernels", Hash, want)
	}
	if first, _, _ := strings.Cut(string(ptx), "\n"); first != "// sources: sha256 "+want {
		t.Errorf("the image begins with %q, the sources' hash is %s: run make kernels", first, want)
	}
	headers, err := filepath.Glob("*.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if h != "fibers.h" && h != "races.h" && !slices.Contains(sources, h) {
			t.Errorf("%s is not among the hashed sources", h)
		}
	}
}

// Every driver from CUDA 12.2 on must load the image on every GPU from sm_80 on.
func TestImageIsPortable(t *testing.T) {
	images := Images()
	text := images[len(images)-1]
	if !bytes.HasSuffix(text, []byte{'\n', 0}) {
		t.Error("PTX that does not end with a zero byte")
	}
	version := regexp.MustCompile(`(?m)^\.version (\d+\.\d+)$`).FindSubmatch(text)
	if version == nil {
		t.Fatal("no .version")
	}
	if v, err := strconv.ParseFloat(string(version[1]), 64); err != nil || v > 8.2 {
		t.Errorf("PTX ISA %s, drivers of CUDA 12.2 know 8.2", version[1])
	}
	if !regexp.MustCompile(`(?m)^\.target sm_80$`).Match(text) {
		t.Error("not for sm_80")
	}
	for _, kernel := range append(ZstdKernels(), Assemble, Decode, Gather, Inflate, Crc32c) {
		if !bytes.Contains(text, []byte(".visible .entry "+kernel+"(")) {
			t.Errorf("no kernel %s", kernel)
		}
	}
	if bytes.Contains(text, []byte("fma.rn.f64")) || bytes.Contains(text, []byte("fma.rn.f32")) {
		t.Error("a fused multiply-add: results would differ from the host's")
	}
}

// TestLayout compares the structs and numbers of both sides.
func TestLayout(t *testing.T) {
	m := start(t, asFibers)
	m.run(t, kernelLayout, 0, 0, nil, nil)
	var size [8]byte
	if _, err := io.ReadFull(m.out, size[:]); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, binary.LittleEndian.Uint64(size[:]))
	if _, err := io.ReadFull(m.out, raw); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for ; len(raw) > 0; raw = raw[8:] {
		got = append(got, binary.LittleEndian.Uint64(raw))
	}
	want := []uint64{
		TileBytes, LoopBytes, ChunkBytes, PieceBytes, AssembleParamsBytes, DecodeParamsBytes, GatherParamsBytes,
		0, 8, 16, 20, 22, 23, 24, 28, 32, 40, 32, // Tile
		0, 8, 16, // Loop
		0, 8, 16, 24, 28, 32, 36, 37, 38, // Chunk
		0, 8, 16, // Piece
		0, 8, 16, 24, 0, 8, 16, 0, 8, // parameters
		ZstdParamsBytes, ZstdHeadBytes, ZstdBlockBytes, ZstdSegmentBytes, ZstdSequencesShared,
		0, 8, 16, 24, 32, 36, // ZstdParams
		ZstdScanBlock, ZstdTablesBlock, ZstdOrderBlock, ZstdLiteralsBlock, ZstdSequencesBlock, ZstdExecuteBlock, ZstdExecuteWideBlock, ZstdFinishBlock,
		AssembleBlock, DecodeBlock, GatherBlock, InflateBlock, Crc32cBlock, MaxRank, NoChunk,
		uint64(Big), uint64(Fill), uint64(Affine), uint64(LZ4), uint64(Blosc), uint64(Unshuffle), uint64(Copy),
		uint64(Zstd), uint64(BloscZstd), uint64(Zlib), uint64(Gzip), uint64(BloscZlib), uint64(Unchecked), uint64(Summed),
		uint64(OK), uint64(Corrupt), uint64(Unsupported),
	}
	for _, d := range nd.DTypes() {
		want = append(want, uint64(d))
	}
	if !slices.Equal(got, want) {
		t.Errorf("C++: %v\nGo:  %v", got, want)
	}
}

// TestAppend guards that Append writes what the structs say: each field at its
// place, and no more bytes than the table's stride.
func TestAppend(t *testing.T) {
	le := binary.LittleEndian
	b := Tile{Dst: 1, Src: 2, Loops: 3, Rank: 4, From: 5, To: 6, Flags: Affine, Chunk: 8, Scale: 1.5, Offset: 2.5}.Append(nil)
	if len(b) != TileBytes || le.Uint64(b) != 1 || le.Uint64(b[8:]) != 2 || le.Uint32(b[16:]) != 3 || le.Uint16(b[20:]) != 4 ||
		b[22] != 5 || b[23] != 6 || le.Uint32(b[24:]) != Affine || le.Uint32(b[28:]) != 8 || b[39] != 0x3f || b[47] != 0x40 {
		t.Errorf("tile %x", b)
	}
	b = Tile{Flags: Fill, Element: [16]byte{15: 9}}.Append(nil)
	if len(b) != TileBytes || b[47] != 9 {
		t.Errorf("fill %x", b)
	}
	b = Chunk{Src: 1, Dst: 2, Scratch: 3, SrcBytes: 4, DstBytes: 5, Status: 6, Method: 7, Typesize: 8, Flags: 0x0a09}.Append(nil)
	if len(b) != ChunkBytes || b[0] != 1 || b[8] != 2 || b[16] != 3 || b[24] != 4 || b[28] != 5 || b[32] != 6 || b[36] != 7 || b[37] != 8 || b[38] != 9 || b[39] != 10 {
		t.Errorf("chunk %x", b)
	}
	b = ZstdParams{Chunks: 1, Status: 2, Work: 3, Arena: 4, N: 5, Blocks: 6}.Append(nil)
	if len(b) != ZstdParamsBytes || b[0] != 1 || b[8] != 2 || b[16] != 3 || b[24] != 4 || b[32] != 5 || b[36] != 6 {
		t.Errorf("zstd parameters %x", b)
	}
	sizes := []int{
		len(Loop{}.Append(nil)), len(Piece{}.Append(nil)),
		len(AssembleParams{}.Append(nil)), len(DecodeParams{}.Append(nil)), len(GatherParams{}.Append(nil)),
	}
	if !slices.Equal(sizes, []int{LoopBytes, PieceBytes, AssembleParamsBytes, DecodeParamsBytes, GatherParamsBytes}) {
		t.Errorf("sizes %v", sizes)
	}
}
