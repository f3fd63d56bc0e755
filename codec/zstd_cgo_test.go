//go:build cgo && !purego

package codec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkZstdTwins decodes chunks by libzstd and by its twin. The first data
// set is what a light microscope writes, compressed by libzstd at level 3; see
// docs/decisions/001-host-zstd.md.
func BenchmarkZstdTwins(b *testing.B) {
	shuffled := func(data []byte, size int) []byte {
		out := make([]byte, len(data))
		Shuffle(out, data, size)
		return out
	}
	for _, c := range []struct {
		name  string
		data  []byte
		level int
	}{
		{"u16", noisyU16(256 << 10), 3},
		{"u16-level1", noisyU16(256 << 10), 1},
		{"u16-shuffled", shuffled(noisyU16(256<<10), 2), 3},
		{"f32-smooth", smoothF32(256 << 10), 3},
		{"f32-smooth-shuffled", shuffled(smoothF32(256<<10), 4), 3},
		{"u16-4KiB", noisyU16(4 << 10), 3},
		{"u16-256B", noisyU16(256), 3},
	} {
		frame, err := encodeZstd(nil, c.data, c.level, false)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, len(c.data))
		for name, decode := range map[string]func(dst, frame []byte) (int, error){
			"libzstd":   newZstdDecoder().decode,
			"klauspost": newTwinZstd().decode,
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(dst)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decodeFrames(dst, frame, decode); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(dst))/float64(len(frame)), "ratio")
			})
		}
	}
}

// smoothF32 is n bytes of f32 as a weather model gives them: slow waves with a
// little noise, rounded to 12 bits of mantissa.
func smoothF32(n int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	b := make([]byte, 0, n+3)
	for i := 0; len(b) < n; i++ {
		v := 280 + 20*math.Sin(float64(i)/700) + 5*math.Cos(float64(i)/90) + 0.05*r.NormFloat64()
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v))&^0x7ff)
	}
	return b[:n]
}
