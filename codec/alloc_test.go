package codec

import "testing"

// Decoding allocates nothing once the scratch has seen a chunk of the size.
func TestDecodersAllocateNothing(t *testing.T) {
	data := make([]byte, 0, 200_000)
	for len(data) < cap(data) {
		data = append(data, byte(len(data)/3), byte(len(data)>>12))
	}
	for name, c := range map[string][2]string{
		"zstd":             {"zstd", `{"level":3}`},
		"zstd checksum":    {"zstd", `{"checksum":true}`},
		"gzip":             {"gzip", `{"level":6}`},
		"zlib stored":      {"zlib", `{"level":0}`},
		"lz4":              {"lz4", ``},
		"blosc lz4":        {"blosc", `{"cname":"lz4","shuffle":1,"typesize":4}`},
		"blosc zstd bits":  {"blosc", `{"cname":"zstd","shuffle":2,"typesize":2}`},
		"blosc zlib":       {"blosc", `{"cname":"zlib","shuffle":1,"typesize":8}`},
		"blosc blosclz":    {"blosc", `{"cname":"blosclz","shuffle":1,"typesize":2}`},
		"blosc snappy":     {"blosc", `{"cname":"snappy","shuffle":0}`},
		"crc32c":           {"crc32c", ``},
		"shuffle":          {"shuffle", `{"elementsize":4}`},
		"delta":            {"delta", `{"dtype":">i4"}`},
		"delta wider":      {"delta", `{"dtype":"<i4","astype":"<i2"}`},
		"delta float":      {"delta", `{"dtype":"<f4","astype":"<f8"}`},
		"fixedscaleoffset": {"fixedscaleoffset", `{"dtype":"<f4","astype":"<i2","scale":10,"offset":3}`},
		"quantize":         {"quantize", `{"dtype":"<f8","astype":"<f4","digits":2}`},
		"bitround":         {"bitround", `{"keepbits":5}`},
		"packbits":         {"packbits", ``},
		"astype":           {"astype", `{"encode_dtype":"<i2","decode_dtype":"<f4"}`},
		"astype integers":  {"astype", `{"encode_dtype":">i2","decode_dtype":"<u8"}`},
	} {
		t.Run(name, func(t *testing.T) {
			codec := stage(t, c[0], c[1])
			encoded, err := codec.Encode(nil, data)
			if err != nil {
				t.Fatal(err)
			}
			dst, s := make([]byte, len(data)), NewScratch()
			defer s.Close()
			if n := testing.AllocsPerRun(10, func() {
				if _, err := codec.Decode(dst, encoded, s); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v allocations a chunk", n)
			}
		})
	}
}
