package codec

import (
	"github.com/klauspost/compress/zstd"
)

// twinZstd decodes zstd in pure Go. It is the decoder of builds without cgo and
// the oracle of the others.
type twinZstd struct {
	decoder *zstd.Decoder
	err     error // why there is no decoder
}

func newTwinZstd() *twinZstd {
	decoder, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecodeAllCapLimit(true),
		// Nothing is allocated by these two: the output is the caller's, and
		// the frame walk has checked the window.
		zstd.WithDecoderMaxMemory(1<<62),
		zstd.WithDecoderMaxWindow(1<<(zstdMaxWindowLog+1)),
	)
	return &twinZstd{decoder, err}
}

func (d *twinZstd) close() {
	if d.err == nil {
		d.decoder.Close()
	}
}

func (d *twinZstd) decode(dst, frame []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	out, err := d.decoder.DecodeAll(frame, dst[:0:len(dst)])
	if err == nil && len(out) > len(dst) {
		err = zstd.ErrDecoderSizeExceeded // a raw block made DecodeAll grow its output
	}
	if err != nil {
		return 0, err
	}
	return len(out), nil
}

func encodeTwinZstd(dst, src []byte, level int, checksum bool) ([]byte, error) {
	const libzstdDefault = 3
	if level == 0 {
		level = libzstdDefault
	}
	encoder, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderCRC(checksum),
		zstd.WithZeroFrames(true), // no bytes become a frame too
	)
	if err != nil {
		return nil, err
	}
	defer func() { _ = encoder.Close() }() // nothing is buffered: EncodeAll is whole
	return encoder.EncodeAll(src, dst), nil
}
