package codec

import "testing"

// BenchmarkDecode decodes 256 KiB chunks by every codec that real stores use.
func BenchmarkDecode(b *testing.B) {
	u16 := noisyU16(256 << 10)
	for _, c := range []struct{ name, codec, config string }{
		{"zstd", "zstd", `{"level":3}`},
		{"blosc-lz4-shuffle", "blosc", `{"cname":"lz4","clevel":5,"shuffle":1,"typesize":2}`},
		{"blosc-lz4-bitshuffle", "blosc", `{"cname":"lz4","clevel":5,"shuffle":2,"typesize":2}`},
		{"blosc-zstd-shuffle", "blosc", `{"cname":"zstd","clevel":3,"shuffle":1,"typesize":2}`},
		{"blosc-zstd-bitshuffle", "blosc", `{"cname":"zstd","clevel":3,"shuffle":2,"typesize":2}`},
		{"blosc-blosclz-shuffle", "blosc", `{"cname":"blosclz","clevel":5,"shuffle":1,"typesize":2}`},
		{"lz4", "lz4", ``},
		{"gzip", "gzip", `{"level":1}`},
		{"crc32c", "crc32c", ``},
		{"delta", "delta", `{"dtype":"<u2"}`},
		{"fixedscaleoffset", "fixedscaleoffset", `{"dtype":"<f4","astype":"<i2","scale":10,"offset":3}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			codec, s := stage(b, c.codec, c.config), NewScratch()
			defer s.Close()
			encoded := encodeAll(b, []Codec{codec}, u16)
			dst := make([]byte, len(u16))
			b.SetBytes(int64(len(u16)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := codec.Decode(dst, encoded, s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(u16))/float64(len(encoded)), "ratio")
		})
	}
}
