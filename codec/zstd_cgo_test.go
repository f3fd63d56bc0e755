//go:build cgo && !purego

package codec

import "testing"

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
