package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// stage makes a codec or ends the test.
func stage(t testing.TB, name, config string) Codec {
	t.Helper()
	c, err := New(name, json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// encodeAll runs the stages, given in the order of decoding, backwards.
func encodeAll(t testing.TB, stages []Codec, data []byte) []byte {
	t.Helper()
	for _, stage := range slices.Backward(stages) {
		encoded, err := stage.Encode(nil, data)
		if err != nil {
			t.Fatalf("%s: encode: %v", stage.Name(), err)
		}
		data = encoded
	}
	return data
}

func chain(t testing.TB, size int, stages ...Codec) *Chain {
	t.Helper()
	c, err := NewChain(stages, size)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantKind checks that an error is of the kind and names all the words.
func wantKind(t testing.TB, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want kind %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not name %q", err, w)
		}
	}
}

// ramp is n bytes that compress well and that no shift of themselves equals.
func ramp(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>7)
	}
	return b
}

func TestChainOrders(t *testing.T) {
	zstd, crc := stage(t, "zstd", `{"level":3}`), stage(t, "crc32c", "")
	swap := Swap(4)
	for name, stages := range map[string][]Codec{
		"none":                nil,
		"zstd":                {zstd},
		"crc32c":              {crc},
		"crc32c outside zstd": {crc, zstd},
		"crc32c inside zstd":  {zstd, crc},
		"crc32c twice":        {crc, crc},
		"zstd twice":          {zstd, zstd},
		"filter behind":       {zstd, swap},
		"all":                 {crc, zstd, zstd, crc, swap, Swap(2), crc, Swap(1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScratch()
			defer s.Close()
			for _, n := range []int{4, 4000, 1 << 18} {
				data := ramp(n)
				encoded := encodeAll(t, stages, data)
				dst := make([]byte, n+10)
				for _, c := range []*Chain{chain(t, n, stages...), chain(t, n, stages...).WithoutChecksums(), chain(t, -1, stages...)} {
					got, err := c.Decode(dst, encoded, s)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, data) {
						t.Fatalf("%d bytes do not come back", n)
					}
					if !startsAt(got, dst) && !bytes.Contains(encoded, got) {
						t.Fatal("the result lies in the scratch")
					}
				}
			}
		})
	}
}

// The size of a chunk comes from its shape, never from the stream: both shorter
// and longer content is corrupt, wherever in the chain it shows.
func TestChainSize(t *testing.T) {
	zstd, crc := stage(t, "zstd", ""), stage(t, "crc32c", "")
	s := NewScratch()
	defer s.Close()
	for name, stages := range map[string][]Codec{
		"none": nil, "zstd": {zstd}, "crc": {crc}, "crc in zstd": {zstd, crc}, "swap": {zstd, Swap(2)},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := encodeAll(t, stages, ramp(1000))
			for _, size := range []int{0, 2, 998, 1002, 5000} {
				_, err := chain(t, size, stages...).Decode(make([]byte, 6000), encoded, s)
				wantKind(t, err, nd.ErrCorrupt)
			}
			if len(stages) > 0 {
				_, err := chain(t, 1000, stages...).Decode(make([]byte, 999), encoded, s)
				wantKind(t, err, nd.ErrBug)
			}
			_, err := chain(t, -1, append(stages, Swap(4))...).Decode(make([]byte, 996), encoded, s)
			wantKind(t, err, nd.ErrCorrupt)
		})
	}
	_, err := chain(t, 999, zstd).Decode(make([]byte, 1000), encodeAll(t, []Codec{zstd}, ramp(1000)[:998]), s)
	wantKind(t, err, nd.ErrCorrupt, "zstd", "998", "999")
	_, err = NewChain([]Codec{zstd, Swap(4)}, 1002)
	wantKind(t, err, nd.ErrCorrupt, "1002")
	_, err = NewChain(nil, -2)
	wantKind(t, err, nd.ErrBug)
}

// Between stages there is room for the bytes that the chunk's size asks for, and
// none for those of a checksum: a hostile stream cannot make the scratch grow.
func TestChainScratchIsBounded(t *testing.T) {
	zstd, crc := stage(t, "zstd", ""), stage(t, "crc32c", "")
	const n = 1000
	bomb := encodeAll(t, []Codec{crc, zstd, zstd, crc}, make([]byte, 10<<20))
	s := NewScratch()
	_, err := chain(t, n, crc, zstd, zstd, crc).Decode(make([]byte, n), bomb, s)
	wantKind(t, err, nd.ErrCorrupt, "zstd")
	if held := cap(s.pipe[0]) + cap(s.pipe[1]); held > 2*n+160<<10 {
		t.Errorf("the scratch holds %d bytes for a chunk of %d", held, n)
	}
	s.Close()
	_, err = chain(t, n, crc, crc).Decode(make([]byte, n), encodeAll(t, []Codec{crc, crc}, ramp(n)), s)
	if err != nil || s.pipe[0] != nil || s.pipe[1] != nil {
		t.Errorf("checksums alone: %v, %d bytes in the scratch", err, cap(s.pipe[0])+cap(s.pipe[1]))
	}
}

func TestChecksum(t *testing.T) {
	crc := stage(t, "crc32c", "")
	s := NewScratch()
	// RFC 3720, B.4: 32 bytes of zeros have the CRC-32C aa 36 91 8a.
	encoded := append(make([]byte, 32), 0xaa, 0x36, 0x91, 0x8a)
	dst := make([]byte, 32)
	got, err := chain(t, 32, crc).Decode(dst, encoded, s)
	if err != nil || &got[0] != &encoded[0] || len(got) != 32 {
		t.Fatalf("a good checksum: %v", err)
	}
	if again, _ := crc.Encode(nil, encoded[:32]); !bytes.Equal(again, encoded) {
		t.Fatalf("encoded % x", again[32:])
	}
	for i := range encoded {
		broken := bytes.Clone(encoded)
		broken[i] ^= 1
		_, err := chain(t, 32, crc).Decode(dst, broken, s)
		wantKind(t, err, nd.ErrCorrupt, "crc32c")
		if got, err := chain(t, 32, crc).WithoutChecksums().Decode(dst, broken, s); err != nil || len(got) != 32 {
			t.Fatalf("unverified: %v", err)
		}
	}
	for n := range 4 {
		_, err := crc.Decode(dst, encoded[:n], s)
		wantKind(t, err, nd.ErrCorrupt, "crc32c")
	}
}

func TestNewNamesWhatItRefuses(t *testing.T) {
	for _, name := range []string{
		"bz2", "lzma", "crc32", "adler32", "fletcher32", "vlen-utf8", "zfp", "pcodec",
		"jpeg", "pickle", "https://example.org/codec", "",
	} {
		_, err := New(name, nil)
		wantKind(t, err, nd.ErrUnsupported, name)
	}
	_, err := New("zstd", json.RawMessage(`[1]`))
	wantKind(t, err, nd.ErrCorrupt, "zstd")
	_, err = New("crc32c", json.RawMessage(`{"location":"middle"}`))
	wantKind(t, err, nd.ErrUnsupported, "middle")
}

func TestChainAllocatesNothing(t *testing.T) {
	stages := []Codec{stage(t, "crc32c", ""), stage(t, "zstd", ""), stage(t, "crc32c", ""), Swap(2)}
	data := ramp(100_000)
	encoded := encodeAll(t, stages, data)
	c, dst, s := chain(t, len(data), stages...), make([]byte, len(data)), NewScratch()
	defer s.Close()
	if n := testing.AllocsPerRun(20, func() {
		if _, err := c.Decode(dst, encoded, s); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a chunk", n)
	}
}
