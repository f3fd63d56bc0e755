package codec

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/headrace/headrace/nd"
)

// checksum is a codec that only guards its bytes.
type checksum interface {
	Codec
	unverified() Codec
}

// crc32c puts the CRC-32C (Castagnoli) of the bytes behind them, little-endian,
// or before them if numcodecs was told so.
type crc32c struct {
	table   *crc32.Table
	verify  bool
	atStart bool
}

const crc32cSize = 4

func newCRC32C(set settings) (Codec, error) {
	var location string
	if _, err := set.get("location", &location); err != nil {
		return nil, err
	}
	if location != "" && location != "end" && location != "start" {
		return nil, nd.Errorf(nd.ErrUnsupported, "codec crc32c: location %q, neither \"start\" nor \"end\"", location)
	}
	return crc32c{crc32.MakeTable(crc32.Castagnoli), true, location == "start"}, nil
}

func (c crc32c) Name() string { return "crc32c" }

func (c crc32c) unverified() Codec {
	c.verify = false
	return c
}

func (c crc32c) encodedSize(decoded int) int { return decoded + crc32cSize }

// Decode returns a part of src.
func (c crc32c) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	n := len(src) - crc32cSize
	if n < 0 {
		return nil, nd.Errorf(nd.ErrCorrupt, "crc32c: %d bytes cannot hold the checksum", len(src))
	}
	if n > len(dst) {
		return nil, tooLong("crc32c", len(dst))
	}
	data, stored := src[:n], src[n:]
	if c.atStart {
		stored, data = src[:crc32cSize], src[crc32cSize:]
	}
	if c.verify {
		stored := binary.LittleEndian.Uint32(stored)
		if sum := crc32.Checksum(data, c.table); sum != stored {
			return nil, nd.Errorf(nd.ErrCorrupt, "crc32c: the bytes have checksum %08x, stored is %08x", sum, stored)
		}
	}
	return data, nil
}

func (c crc32c) Encode(dst, src []byte) ([]byte, error) {
	sum := crc32.Checksum(src, c.table)
	if c.atStart {
		return append(binary.LittleEndian.AppendUint32(dst, sum), src...), nil
	}
	return binary.LittleEndian.AppendUint32(append(dst, src...), sum), nil
}
