package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/fse"
)

// The format is RFC 8878; the numbers behind names are its sections.

const (
	zstdMagic     = 0xFD2FB528
	zstdSkippable = 0x184D2A50 // the low four bits are free
	zstdMaxBlock  = 128 << 10

	blockRaw = 0
	blockRLE = 1
	blockLZ  = 2

	literalsRaw      = 0
	literalsRLE      = 1
	literalsTreeless = 3
)

// addZstd counts frames one after the other.
func (s *Structure) addZstd(src []byte) error {
	if len(src) == 0 {
		return errTorn
	}
	for i := 0; len(src) > 0; i++ {
		rest, err := s.addFrame(src)
		if err != nil {
			return within("frame", i, err)
		}
		src = rest
	}
	return nil
}

// addFrame counts the first frame of src and gives what follows it.
func (s *Structure) addFrame(src []byte) (rest []byte, err error) {
	if len(src) < 8 {
		return nil, errTorn
	}
	magic := binary.LittleEndian.Uint32(src)
	if magic&^0xF == zstdSkippable {
		size := 8 + int64(binary.LittleEndian.Uint32(src[4:]))
		if size > int64(len(src)) {
			return nil, errTorn
		}
		return src[size:], nil
	}
	if magic != zstdMagic {
		return nil, fmt.Errorf("magic %08x is not zstd's", magic)
	}
	s.Frames++
	checksum := src[4]&0x04 != 0
	if src, err = s.addHeader(src[4:]); err != nil {
		return nil, err
	}
	for last, i := false, 0; !last; i++ {
		if src, last, err = s.addBlock(src); err != nil {
			return nil, within("block", i, err)
		}
	}
	if checksum {
		s.Checksums++
		if len(src) < 4 {
			return nil, errTorn
		}
		src = src[4:]
	}
	return src, nil
}

// addHeader reads a frame header behind its magic (3.1.1.1).
func (s *Structure) addHeader(src []byte) (rest []byte, err error) {
	descriptor := src[0]
	src = src[1:]
	single := descriptor&0x20 != 0
	dictionary := [4]int{0, 1, 2, 4}[descriptor&3]
	content := [4]int{0, 2, 4, 8}[descriptor>>6]
	if single && content == 0 {
		content = 1
	}
	window := int64(0)
	if !single {
		if len(src) < 1 {
			return nil, errTorn
		}
		log := 10 + int(src[0]>>3)
		window = int64(1)<<log + int64(1)<<log/8*int64(src[0]&7)
		src = src[1:]
	}
	if len(src) < dictionary+content {
		return nil, errTorn
	}
	size := int64(little(src[dictionary : dictionary+content]))
	switch content {
	case 0:
		s.Sizeless++
	case 2:
		size += 256
	}
	if single {
		window = size
	}
	s.Window = max(s.Window, window)
	return src[dictionary+content:], nil
}

// addBlock counts a block (3.1.1.2) and says whether it is the frame's last.
func (s *Structure) addBlock(src []byte) (rest []byte, last bool, err error) {
	if len(src) < 3 {
		return nil, false, errTorn
	}
	header := int(little(src[:3]))
	kind, size := header>>1&3, header>>3
	src, last = src[3:], header&1 != 0
	if size > zstdMaxBlock {
		return nil, false, fmt.Errorf("%d bytes, at most %d are legal", size, zstdMaxBlock)
	}
	stored := size
	switch kind {
	case blockRaw:
		s.Blocks.Raw++
		s.Plain += int64(size)
	case blockRLE:
		s.Blocks.RLE++
		stored = 1
	case blockLZ:
		s.Blocks.Compressed++
	default:
		return nil, false, errors.New("of the reserved type")
	}
	if stored > len(src) {
		return nil, false, errTorn
	}
	if kind == blockLZ {
		err = s.addCompressed(src[:stored])
	}
	return src[stored:], last, err
}

// addCompressed counts the literals and the sequences of a block.
func (s *Structure) addCompressed(block []byte) error {
	rest, err := s.addLiterals(block)
	if err != nil {
		return fmt.Errorf("literals: %w", err)
	}
	n, err := sequences(rest)
	if err != nil {
		return fmt.Errorf("sequences: %w", err)
	}
	s.Sequences += n
	return nil
}

// addLiterals reads the literals section (3.1.1.3.1) and gives what follows it.
func (s *Structure) addLiterals(block []byte) (rest []byte, err error) {
	if len(block) < 1 {
		return nil, errTorn
	}
	kind, format := block[0]&3, int(block[0]>>2&3)
	if kind == literalsRaw || kind == literalsRLE {
		return s.addPlainLiterals(block, kind, format)
	}
	header := [4]int{3, 3, 4, 5}[format]
	width := [4]int{10, 10, 14, 18}[format]
	if len(block) < header {
		return nil, errTorn
	}
	sizes := little(block[:header]) >> 4
	decoded, stored := int64(sizes&(1<<width-1)), int(sizes>>width&(1<<width-1))
	block = block[header:]
	if stored > len(block) {
		return nil, errTorn
	}
	s.Literals += decoded
	s.Huffman += decoded
	if kind == literalsTreeless {
		s.Treeless++
		return block[stored:], nil
	}
	log, err := tableBits(block[:stored])
	if err != nil {
		return nil, err
	}
	s.table(log)
	return block[stored:], nil
}

func (s *Structure) addPlainLiterals(block []byte, kind byte, format int) (rest []byte, err error) {
	header, shift := 1, 3
	switch format {
	case 1:
		header, shift = 2, 4
	case 3:
		header, shift = 3, 4
	}
	if len(block) < header {
		return nil, errTorn
	}
	size := int(little(block[:header]) >> shift)
	stored := size
	if kind == literalsRLE {
		stored = 1
	}
	if stored > len(block)-header {
		return nil, errTorn
	}
	s.Literals += int64(size)
	return block[header+stored:], nil
}

// tableBits is the longest code of the Huffman tree that the bytes begin with (4.2.1).
func tableBits(src []byte) (int, error) {
	if len(src) < 1 {
		return 0, errTorn
	}
	n := int(src[0])
	src = src[1:]
	var weights []byte
	if n >= 128 { // four bits each
		n -= 127
		if len(src) < (n+1)/2 {
			return 0, errTorn
		}
		for i := range n {
			weights = append(weights, src[i/2]>>(4*(1-i%2))&15)
		}
	} else {
		if len(src) < n {
			return 0, errTorn
		}
		var err error
		if weights, err = fse.Decompress(src[:n], &fse.Scratch{DecompressLimit: 255}); err != nil {
			return 0, fmt.Errorf("weights of the Huffman code: %w", err)
		}
	}
	// Each symbol takes 2^(weight-1) of the code's room; one more symbol, whose weight
	// is not stored, fills it up to a power of 2.
	total := uint(0)
	for _, w := range weights {
		if w > 0 {
			total += 1 << (w - 1)
		}
	}
	if total == 0 {
		return 0, errors.New("a Huffman code of no symbols")
	}
	return bits.Len(total), nil
}

// sequences is the count at the head of a sequences section (3.1.1.3.2.1).
func sequences(src []byte) (int64, error) {
	switch {
	case len(src) < 1:
		return 0, errTorn
	case src[0] < 128:
		return int64(src[0]), nil
	case len(src) < 2:
		return 0, errTorn
	case src[0] < 255:
		return int64(src[0]-128)<<8 | int64(src[1]), nil
	case len(src) < 3:
		return 0, errTorn
	}
	return int64(src[1]) + int64(src[2])<<8 + 0x7F00, nil
}

// little reads up to eight bytes.
func little(b []byte) (n uint64) {
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	return n
}
