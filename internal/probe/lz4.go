package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// lz4Header is the decoded length that numcodecs puts before a block.
const lz4Header = 4

// addLZ4 counts the sequences and literals of an LZ4 block. The last sequence is
// literals alone.
func (s *Structure) addLZ4(src []byte) error {
	for at := 0; at < len(src); {
		token := int(src[at])
		at++
		literals, next, ok := lz4Length(src, at, token>>4)
		if !ok || literals > len(src)-next {
			return errTorn
		}
		s.Literals += int64(literals)
		s.Sequences++
		at = next + literals
		if at == len(src) {
			break
		}
		if at+2 > len(src) {
			return errTorn
		}
		if _, at, ok = lz4Length(src, at+2, token&15); !ok {
			return errTorn
		}
	}
	return nil
}

// lz4Length is a length of which four bits are in the token and the rest, if they are
// all ones, in bytes from at on.
func lz4Length(src []byte, at, n int) (length, next int, ok bool) {
	if n < 15 {
		return n, at, true
	}
	for ; at < len(src); at++ {
		n += int(src[at])
		if src[at] < 255 {
			return n, at + 1, true
		}
	}
	return 0, at, false
}

// The header of a blosc 1 frame; see package codec, which reads it in full.
const (
	bloscHeader     = 16
	bloscShuffle    = 0x01
	bloscMemcpyed   = 0x02
	bloscBitShuffle = 0x04
	bloscDontSplit  = 0x10
	bloscMaxSplits  = 16
	bloscMinSplit   = 128
	bloscLZ4        = 1
	bloscZstd       = 4
)

// bloscFrame is the header of a frame.
type bloscFrame struct {
	data                        []byte
	flags                       byte
	typesize, nbytes, blocksize int
}

func parseBlosc(src []byte) (f bloscFrame, err error) {
	if len(src) < bloscHeader {
		return f, errTorn
	}
	f.flags, f.typesize = src[2], int(src[3])
	f.nbytes, f.blocksize = int(binary.LittleEndian.Uint32(src[4:])), int(binary.LittleEndian.Uint32(src[8:]))
	cbytes := int(binary.LittleEndian.Uint32(src[12:]))
	if cbytes > len(src) || cbytes < bloscHeader {
		return f, errTorn
	}
	f.data = src[:cbytes]
	if f.plain() {
		return f, nil
	}
	if f.blocksize < 1 || f.typesize < 1 || f.blocks() > (cbytes-bloscHeader)/4 {
		return f, fmt.Errorf("%d bytes in blocks of %d", f.nbytes, f.blocksize)
	}
	return f, nil
}

func (f *bloscFrame) plain() bool { return f.flags&bloscMemcpyed != 0 || f.nbytes == 0 }
func (f *bloscFrame) blocks() int { return (f.nbytes + f.blocksize - 1) / f.blocksize }

func (f *bloscFrame) streams(length int) int {
	if f.flags&bloscDontSplit == 0 && length == f.blocksize && f.typesize <= bloscMaxSplits && f.blocksize/f.typesize >= bloscMinSplit {
		return f.typesize
	}
	return 1
}

func (f *bloscFrame) shuffle() string {
	switch {
	case f.flags&bloscShuffle != 0 && f.typesize > 1:
		return "bytes"
	case f.flags&bloscBitShuffle != 0:
		return "bits"
	}
	return "none"
}

// addBlosc counts the streams of a frame by the compressor that is inside.
func (s *Structure) addBlosc(src []byte) error {
	f, err := parseBlosc(src)
	if err != nil {
		return err
	}
	s.Frames++
	if f.plain() {
		s.Plain += int64(f.nbytes)
		s.Blocks.Raw++
		return nil
	}
	s.shuffled(f.shuffle())
	for i := range f.blocks() {
		if err := s.addBloscBlock(&f, i); err != nil {
			return within("block", i, err)
		}
	}
	return nil
}

func (s *Structure) addBloscBlock(f *bloscFrame, i int) error {
	start := int64(binary.LittleEndian.Uint32(f.data[bloscHeader+4*i:]))
	if start > int64(len(f.data)) {
		return errors.New("it starts behind the frame")
	}
	block := f.data[start:]
	length := min(f.blocksize, f.nbytes-i*f.blocksize)
	n := f.streams(length)
	for range n {
		if len(block) < 4 {
			return errTorn
		}
		size := int64(binary.LittleEndian.Uint32(block))
		if block = block[4:]; size > int64(len(block)) {
			return errTorn
		}
		if err := s.addStream(f, block[:size], length/n); err != nil {
			return err
		}
		block = block[size:]
	}
	return nil
}

// addStream counts a stream that is decoded to raw bytes; one that is as long is plain.
func (s *Structure) addStream(f *bloscFrame, stream []byte, raw int) error {
	if len(stream) == raw {
		s.Plain += int64(raw)
		s.Blocks.Raw++
		return nil
	}
	switch f.flags >> 5 {
	case bloscLZ4:
		s.Blocks.Compressed++
		return s.addLZ4(stream)
	case bloscZstd:
		frames := s.Frames
		err := s.addZstd(stream)
		s.Frames = frames // of blosc
		return err
	}
	s.Blocks.Compressed++
	return nil
}
