package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// deflateCodec reads gzip (RFC 1952) and zlib (RFC 1950): two wrappings of a
// deflate stream. Stores hold either under either name, so that the first bytes
// decide; the name matters to the encoder alone.
type deflateCodec struct {
	name  string
	level int
}

func newGzip(set settings) (Codec, error) { return deflateCodec{"gzip", set.hint("level", 1)}, nil }
func newZlib(set settings) (Codec, error) { return deflateCodec{"zlib", set.hint("level", 1)}, nil }

func (d deflateCodec) Name() string { return d.name }

func (d deflateCodec) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	decode := decodeZlib
	if isGzip(src) {
		decode = decodeGzip
	}
	n, err := decode(dst, src, &s.inflater)
	if err != nil {
		return nil, failed(d.name, len(dst), err)
	}
	return dst[:n], nil
}

func isGzip(src []byte) bool { return len(src) >= 2 && src[0] == 0x1f && src[1] == 0x8b }

// decodeGzip decodes the members of a stream one after another. Zeros or other
// bytes that start no member may follow: writers that pad to a sector leave them.
func decodeGzip(dst, src []byte, f *inflater) (n int, err error) {
	for isGzip(src) {
		header, err := gzipHeader(src)
		if err != nil {
			return 0, err
		}
		got, used, err := f.inflate(dst[n:], src[header:])
		if err != nil {
			return 0, err
		}
		member := dst[n : n+got]
		if src = src[header+used:]; len(src) < 8 {
			return 0, errTorn
		}
		if crc32.ChecksumIEEE(member) != binary.LittleEndian.Uint32(src) {
			return 0, errors.New("the checksum of the bytes is not the stored one")
		}
		if uint32(got) != binary.LittleEndian.Uint32(src[4:]) {
			return 0, errors.New("the number of bytes is not the stored one")
		}
		n, src = n+got, src[8:]
	}
	return n, nil
}

// The bits of a member header's flag byte (RFC 1952, 2.3.1).
const (
	gzipHeaderCRC = 1 << 1
	gzipExtra     = 1 << 2
	gzipName      = 1 << 3
	gzipComment   = 1 << 4
	gzipReserved  = 0xe0
)

// gzipHeader returns the length of the member header that src starts with.
func gzipHeader(src []byte) (int, error) {
	if len(src) < 10 {
		return 0, errTorn
	}
	flags := src[3]
	if src[2] != 8 || flags&gzipReserved != 0 {
		return 0, unsupported("compression method %d, flags %#02x", src[2], flags)
	}
	at := 10
	if flags&gzipExtra != 0 {
		if len(src) < at+2 {
			return 0, errTorn
		}
		at += 2 + int(binary.LittleEndian.Uint16(src[at:]))
	}
	for _, text := range []byte{gzipName, gzipComment} {
		if flags&text == 0 {
			continue
		}
		end := bytes.IndexByte(src[min(at, len(src)):], 0)
		if end < 0 {
			return 0, errTorn
		}
		at += end + 1
	}
	if flags&gzipHeaderCRC != 0 {
		at += 2
		if at <= len(src) && uint16(crc32.ChecksumIEEE(src[:at-2])) != binary.LittleEndian.Uint16(src[at-2:]) {
			return 0, errors.New("the checksum of its header is wrong")
		}
	}
	if at > len(src) {
		return 0, errTorn
	}
	return at, nil
}

// decodeZlib decodes one zlib stream; bytes behind it are ignored.
func decodeZlib(dst, src []byte, f *inflater) (int, error) {
	if len(src) < 2 {
		return 0, errTorn
	}
	method, flags := src[0], src[1]
	if method&15 != 8 || method>>4 > 7 || (int(method)<<8|int(flags))%31 != 0 {
		return 0, fmt.Errorf("neither gzip nor zlib: starts with % x", src[:2])
	}
	if flags&0x20 != 0 {
		return 0, unsupported("needs a preset dictionary")
	}
	n, used, err := f.inflate(dst, src[2:])
	if err != nil {
		return 0, err
	}
	if src = src[2+used:]; len(src) < 4 {
		return 0, errTorn
	}
	if adler32.Checksum(dst[:n]) != binary.BigEndian.Uint32(src) {
		return 0, errors.New("the checksum of the bytes is not the stored one")
	}
	return n, nil
}

// inflater is a deflate decoder with what it reads from. It is made at first use.
type inflater struct {
	reader io.ReadCloser
	src    bytes.Reader
	beyond [1]byte // where the byte goes that must not come
}

// inflate decodes the deflate stream that src starts with. It returns the bytes
// written and the bytes read: exactly the stream's, because the reader of the
// source gives single bytes.
func (f *inflater) inflate(dst, src []byte) (n, used int, err error) {
	f.src.Reset(src)
	defer f.src.Reset(nil)
	if f.reader == nil {
		f.reader = flate.NewReader(&f.src)
	} else if err := f.reader.(flate.Resetter).Reset(&f.src, nil); err != nil {
		return 0, 0, err
	}
	for {
		out := dst[n:]
		if len(out) == 0 {
			out = f.beyond[:]
		}
		got, err := f.reader.Read(out)
		if got > 0 && n == len(dst) {
			return 0, 0, errRoom
		}
		n += got
		switch {
		case err == io.EOF:
			return n, len(src) - f.src.Len(), nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return 0, 0, errTorn
		case err != nil:
			return 0, 0, err
		}
	}
}

func (d deflateCodec) Encode(dst, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	level := min(max(d.level, flate.DefaultCompression), flate.BestCompression)
	var w io.WriteCloser
	var err error
	if d.name == "gzip" {
		w, err = gzip.NewWriterLevel(out, level)
	} else {
		w, err = zlib.NewWriterLevel(out, level)
	}
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	err = w.Close() // writes the trailer: before the bytes are taken
	return out.Bytes(), err
}
