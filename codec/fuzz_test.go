package codec

import (
	"bytes"
	"errors"
	"testing"

	"github.com/headrace/headrace/nd"
)

// decodeHostile decodes what may be anything, and checks all that a decoder
// promises about such input: an error of a kind of its own, or a result within
// the limit; nothing written behind dst; src left alone.
func decodeHostile(t *testing.T, c Codec, src []byte, limit int, s *Scratch) ([]byte, error) {
	t.Helper()
	before := bytes.Clone(src)
	whole := bytes.Repeat([]byte{0xaa}, limit+32)
	got, err := c.Decode(whole[:limit], src, s)
	if !bytes.Equal(src, before) {
		t.Fatal("the source was changed")
	}
	if !bytes.Equal(whole[limit:], bytes.Repeat([]byte{0xaa}, 32)) {
		t.Fatal("wrote behind dst")
	}
	if err != nil {
		if !errors.Is(err, nd.ErrCorrupt) && !errors.Is(err, nd.ErrUnsupported) {
			t.Fatalf("error of no kind: %v", err)
		}
		return nil, err
	}
	if len(got) > limit {
		t.Fatalf("%d bytes, limit %d", len(got), limit)
	}
	if !startsAt(got, whole) && !bytes.Contains(src, got) {
		t.Fatal("the result is neither in dst nor in src")
	}
	return got, nil
}

// seed adds the golden cases of the codecs as a corpus, the small ones.
func seed(f *testing.F, file string, codecs ...string) {
	for _, g := range goldenCases(f, file) {
		for _, name := range codecs {
			if g.Codec == name && len(g.Encoded) < 2000 {
				f.Add(g.Encoded)
			}
		}
	}
}

const fuzzLimit = 1 << 16

func FuzzBlosc(f *testing.F) {
	seed(f, "blosc", "blosc")
	c, s := stage(f, "blosc", ""), NewScratch()
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := decodeHostile(t, c, src, fuzzLimit, s)
		if err != nil {
			return
		}
		if again, err := decodeHostile(t, c, append(bytes.Clone(src), 1, 2, 3), len(got), s); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("with bytes behind the frame: %v", err)
		}
	})
}

func FuzzDeflate(f *testing.F) {
	seed(f, "deflate", "gzip", "zlib")
	c, s := stage(f, "gzip", ""), NewScratch()
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := decodeHostile(t, c, src, fuzzLimit, s)
		if err == nil && len(got) > 0 {
			if _, err := decodeHostile(t, c, src, len(got)-1, s); err == nil {
				t.Fatal("fits a dst that is too short")
			}
		}
	})
}

// FuzzLZ4 holds the fast decoder against the slow one.
func FuzzLZ4(f *testing.F) {
	for _, g := range goldenCases(f, "lz4") {
		if len(g.Encoded) > 4 && len(g.Encoded) < 2000 {
			f.Add(g.Encoded[4:], uint16(len(g.want(f))))
		}
	}
	f.Fuzz(func(t *testing.T, block []byte, limit uint16) {
		fast := bytes.Repeat([]byte{0xaa}, int(limit)+32)
		slow := make([]byte, limit)
		n, okFast := decodeLZ4(fast[:limit], block)
		m, okSlow := decodeLZ4Twin(slow, block)
		if okFast != okSlow || okFast && !bytes.Equal(fast[:n], slow[:m]) {
			t.Fatalf("fast: %d bytes, %v; slow: %d bytes, %v", n, okFast, m, okSlow)
		}
		if !bytes.Equal(fast[limit:], bytes.Repeat([]byte{0xaa}, 32)) {
			t.Fatal("wrote behind dst")
		}
	})
}

// FuzzZstd guards that a build without cgo reads what one with cgo reads.
func FuzzZstd(f *testing.F) {
	seed(f, "zstd", "zstd")
	ours, twin := newZstdDecoder(), newTwinZstd()
	f.Fuzz(func(t *testing.T, stream []byte) { sameVerdict(t, ours, twin, stream, fuzzLimit) })
}

// fuzzStages are the stages that FuzzChain combines. All of them give back
// whatever bytes they encode.
func fuzzStages(f *testing.F) []Codec {
	return []Codec{
		stage(f, "zstd", `{"level":1}`),
		stage(f, "zstd", `{"level":3,"checksum":true}`),
		stage(f, "gzip", `{"level":1}`),
		stage(f, "zlib", `{"level":0}`),
		stage(f, "lz4", ``),
		stage(f, "crc32c", ``),
		stage(f, "blosc", `{"cname":"lz4","shuffle":1,"typesize":4,"blocksize":256}`),
		stage(f, "blosc", `{"cname":"zstd","shuffle":2,"typesize":2,"blocksize":512}`),
		stage(f, "blosc", `{"cname":"blosclz","shuffle":1,"typesize":3,"blocksize":400}`),
		stage(f, "blosc", `{"cname":"snappy","shuffle":0,"blocksize":300}`),
		stage(f, "shuffle", `{"elementsize":3}`),
		stage(f, "delta", `{"dtype":"|u1"}`),
		Swap(1),
	}
}

// FuzzChain builds a chain from the first argument, and wants the data back from
// their encoding. With one byte of the encoding changed it must give an error or
// as many bytes.
func FuzzChain(f *testing.F) {
	f.Add([]byte{0}, []byte("data"), uint16(0), byte(0))
	f.Add([]byte{5, 0, 10}, ramp(3000), uint16(9), byte(1))
	f.Add([]byte{6, 11, 5}, ramp(1000), uint16(20), byte(128))
	f.Add([]byte{2, 7, 3, 8}, noise(700), uint16(2), byte(7))
	stages, s := fuzzStages(f), NewScratch()
	f.Fuzz(func(t *testing.T, recipe, data []byte, at uint16, flip byte) {
		if len(recipe) > 6 || len(data) > 1<<14 {
			return
		}
		var list []Codec
		for _, r := range recipe {
			list = append(list, stages[int(r)%len(stages)])
		}
		encoded, c := encodeAll(t, list, data), chain(t, len(data), list...)
		dst := make([]byte, len(data))
		if got, err := c.Decode(dst, encoded, s); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("does not come back: %v", err)
		}
		if len(encoded) > 0 {
			encoded = bytes.Clone(encoded)
			encoded[int(at)%len(encoded)] ^= flip
		}
		for _, c := range []*Chain{c, c.WithoutChecksums()} {
			if got, err := c.Decode(dst, encoded, s); err == nil && len(got) != len(data) {
				t.Fatalf("%d bytes, expected %d", len(got), len(data))
			}
		}
	})
}
