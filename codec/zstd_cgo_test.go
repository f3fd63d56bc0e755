//go:build cgo && !purego

package codec

import (
	"bytes"
	"testing"
)

// compareZstd decodes by both decoders of this build and demands the same bytes
// and the same verdict.
func compareZstd(t *testing.T, lib *zstdDecoder, twin *twinZstd, stream []byte, limit int) {
	t.Helper()
	a, b := make([]byte, limit), make([]byte, limit)
	n, errLib := decodeFrames(a, stream, lib.decode)
	m, errTwin := decodeFrames(b, stream, twin.decode)
	if (errLib == nil) != (errTwin == nil) {
		t.Fatalf("libzstd: %v\ntwin: %v", errLib, errTwin)
	}
	if errLib == nil && !bytes.Equal(a[:n], b[:m]) {
		t.Fatalf("the decoders give different bytes, %d and %d", n, m)
	}
}

// FuzzZstdTwins guards that a build without cgo reads what one with cgo reads.
func FuzzZstdTwins(f *testing.F) {
	for _, level := range []int{-5, 1, 3, 19} {
		for _, content := range [][]byte{nil, ramp(5000), noise(300), noisyU16(4000), bytes.Repeat([]byte{7}, 1000)} {
			frame, err := encodeZstd(nil, content, level, level == 3)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(frame)
		}
	}
	lib, twin := newZstdDecoder(), newTwinZstd()
	f.Fuzz(func(t *testing.T, stream []byte) { compareZstd(t, lib, twin, stream, 1<<16) })
}

// BenchmarkZstdTwins decodes chunks as a microscope writes them: 256 KiB of
// noisy u16, compressed by libzstd at level 3.
func BenchmarkZstdTwins(b *testing.B) {
	for _, size := range []int{256, 4 << 10, 256 << 10} {
		content := noisyU16(size)
		frame, err := encodeZstd(nil, content, 3, false)
		if err != nil {
			b.Fatal(err)
		}
		lib, twin := newZstdDecoder(), newTwinZstd()
		dst := make([]byte, size)
		for name, decode := range map[string]func(dst, frame []byte) (int, error){"libzstd": lib.decode, "klauspost": twin.decode} {
			b.Run(name+"/"+byteCount(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decodeFrames(dst, frame, decode); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)/float64(len(frame)), "ratio")
			})
		}
	}
}
