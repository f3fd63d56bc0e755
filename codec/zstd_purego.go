//go:build !cgo || purego

package codec

// ZstdLibrary names the zstd library of this build, for reports.
const ZstdLibrary = "klauspost"

// zstdDecoder is the decoder of this build.
type zstdDecoder = twinZstd

func newZstdDecoder() *zstdDecoder { return newTwinZstd() }

func encodeZstd(dst, src []byte, level int, checksum bool) ([]byte, error) {
	return encodeTwinZstd(dst, src, level, checksum)
}
