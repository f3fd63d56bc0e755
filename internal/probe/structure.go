package probe

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headrace/headrace/nd"
)

// Structure is what the bytes of stored chunks say about the work of decoding them. It
// is counted from headers alone: no byte is decoded.
type Structure struct {
	Chunks  int
	Decoded int64 // bytes
	Stored  int64

	Blocks    Blocks
	Sequences int64 // a run of literals and a match
	Literals  int64 // bytes that are no part of a match, entropy coded or not
	Huffman   int64 // of those, bytes behind a Huffman code
	Plain     int64 // bytes of raw blocks, which are copied
	// Tables counts the Huffman tables by the bits of their longest code, which is the
	// size of the decoder's table; Treeless are blocks that use the one before.
	Tables   map[int]int
	Treeless int

	Frames    int
	Checksums int   // frames with a content checksum
	Sizeless  int   // frames that do not say how long they are decoded
	Window    int64 // the largest of a frame

	Shuffle string // of blosc frames: bytes, bits, none or mixed
}

// Blocks counts the blocks of zstd frames, or of blosc frames with LZ4 inside, by what
// they hold.
type Blocks struct {
	Raw        int `json:"raw"`
	RLE        int `json:"rle"`
	Compressed int `json:"compressed"`
}

// errTorn is the cause of errors about bytes that end too early.
var errTorn = errors.New("the bytes end within it")

// Add counts a stored chunk of the given method, which is decoded to so many bytes. A
// method without a structure that predicts anything counts bytes alone.
func (s *Structure) Add(method Method, stored []byte, decoded int64) error {
	s.Chunks++
	s.Stored += int64(len(stored))
	s.Decoded += decoded
	var err error
	switch method {
	case Zstd:
		err = s.addZstd(stored)
	case LZ4:
		if len(stored) < lz4Header {
			err = errTorn
		} else {
			err = s.addLZ4(stored[lz4Header:])
		}
	case BloscLZ4, BloscZstd, BloscLZ, BloscZlib, BloscOther:
		err = s.addBlosc(stored)
	}
	if err != nil {
		return nd.Errorf(nd.ErrCorrupt, "%s: %w", method, err)
	}
	return nil
}

// Features are what the cost model knows a chunk by.
type Features struct {
	SequencesPerKiB float64 `json:"sequences_per_kib"`
	LiteralShare    float64 `json:"literal_share"` // Huffman-coded bytes of the decoded ones
}

// Features of the chunks together; zero for none.
func (s *Structure) Features() Features {
	if s.Decoded == 0 {
		return Features{}
	}
	return Features{
		SequencesPerKiB: float64(s.Sequences) / (float64(s.Decoded) / 1024),
		LiteralShare:    float64(s.Huffman) / float64(s.Decoded),
	}
}

// table counts a Huffman table of so many bits.
func (s *Structure) table(bits int) {
	if s.Tables == nil {
		s.Tables = map[int]int{}
	}
	s.Tables[bits]++
}

// tables lists the counts by bits.
func (s *Structure) tables() []HuffmanTables {
	list := []HuffmanTables{}
	for _, bits := range slices.Sorted(maps.Keys(s.Tables)) {
		list = append(list, HuffmanTables{bits, s.Tables[bits]})
	}
	return list
}

// shuffled notes how a blosc frame was shuffled.
func (s *Structure) shuffled(how string) {
	if s.Shuffle != "" && s.Shuffle != how {
		how = "mixed"
	}
	s.Shuffle = how
}

// within names the place of an error in a list of parts.
func within(what string, i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %d: %w", what, i, err)
}
