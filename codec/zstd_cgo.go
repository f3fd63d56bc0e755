//go:build cgo && !purego

package codec

import (
	"errors"

	"github.com/DataDog/zstd"
)

// ZstdLibrary names the zstd library of this build, for reports.
const ZstdLibrary = "libzstd"

// zstdDecoder is the decoder of this build: one libzstd context. Its C memory is
// freed by a finalizer of the wrapper once nothing refers to it.
type zstdDecoder struct {
	context zstd.Ctx
	nothing [1]byte // where an empty frame is decoded to: libzstd's wrapper needs an address
}

func newZstdDecoder() *zstdDecoder { return &zstdDecoder{context: zstd.NewCtx()} }

func (d *zstdDecoder) close() { d.context = nil }

func (d *zstdDecoder) decode(dst, frame []byte) (int, error) {
	if len(dst) > 0 {
		return d.context.DecompressInto(dst, frame)
	}
	n, err := d.context.DecompressInto(d.nothing[:], frame)
	if err == nil && n > 0 {
		err = errors.New("decodes to more than no bytes")
	}
	return 0, err
}

func encodeZstd(dst, src []byte, level int, checksum bool) ([]byte, error) {
	frame, err := zstd.CompressLevel(nil, src, level)
	if err != nil {
		return nil, err
	}
	if checksum && len(src) > 0 { // the twin too writes none for no bytes
		frame, err = appendContentChecksum(frame, src)
	}
	return append(dst, frame...), err
}

// appendContentChecksum turns on the checksum of a frame, which the wrapper of
// libzstd cannot. The checksum depends on the content alone, so that the last
// four bytes of the twin's frame are it.
func appendContentChecksum(frame, content []byte) ([]byte, error) {
	twin, err := encodeTwinZstd(nil, content, 1, true)
	if err != nil {
		return nil, err
	}
	frame[4] |= 0x04
	return append(frame, twin[len(twin)-4:]...), nil
}
