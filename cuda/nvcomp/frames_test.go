package nvcomp_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/headrace/headrace/codec"
)

// noise is n bytes that no codec can compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// levels is n bytes of u16 around a slow wave; spread 0 is smooth.
func levels(n, spread int) []byte {
	r := rand.New(rand.NewPCG(2, uint64(n)))
	b := make([]byte, 0, n+1)
	for i := 0; len(b) < n; i++ {
		b = binary.LittleEndian.AppendUint16(b, uint16(100+i/64%40+r.IntN(spread+1)))
	}
	return b[:n]
}

// stored is a frame of raw blocks, and of RLE blocks where all bytes of one are
// equal: what the fake nvCOMP can decode.
func stored(text []byte) []byte {
	frame := binary.LittleEndian.AppendUint32(nil, 0xFD2FB528)
	frame = append(frame, 0xA0) // single segment, four bytes of content size
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(text)))
	for {
		n := min(len(text), 128<<10)
		block, rest := text[:n], text[n:]
		head := uint32(n) << 3
		if len(rest) == 0 {
			head |= 1
		}
		if n > 1 && equal(block) {
			head |= 2
			block = block[:1]
		}
		frame = append(frame, byte(head), byte(head>>8), byte(head>>16))
		frame = append(frame, block...)
		text = rest
		if len(rest) == 0 {
			return frame
		}
	}
}

func equal(b []byte) bool {
	for _, c := range b {
		if c != b[0] {
			return false
		}
	}
	return true
}

// sample is an encoded chunk and how many bytes it decodes to.
type sample struct {
	name    string
	frame   []byte
	decoded int64
	text    []byte // nil if the sample comes from a file
}

// encoded makes chunks with the zstd encoder of package codec, at many levels.
func encoded(t testing.TB) []sample {
	t.Helper()
	list, err := encodedOnce()
	ok(t, err)
	return list
}

var encodedOnce = sync.OnceValues(encode)

func encode() (list []sample, err error) {
	texts := map[string][]byte{"nothing": {}, "one": {1}, "zeros": make([]byte, 70_000), "noise": noise(200_000)}
	for _, n := range []int{2, 30, 255, 256, 1000, 4096, 65_791, 128 << 10, 128<<10 + 1, 300_000} {
		for _, spread := range []int{0, 3, 40, 1000, 60_000} {
			texts[fmt.Sprintf("%d u16 within %d", n, spread)] = levels(n, spread)
		}
	}
	for _, level := range []int{-5, 1, 3, 6, 9, 19, 22} {
		for name, text := range texts {
			if level > 9 && len(text) > 70_000 && len(text) != 300_000 {
				continue // slow to encode
			}
			checksum := level%2 == 0
			c, err := codec.New("zstd", json.RawMessage(fmt.Sprintf(`{"level":%d,"checksum":%v}`, level, checksum)))
			if err != nil {
				return nil, err
			}
			frame, err := c.Encode(nil, text)
			if err != nil {
				return nil, err
			}
			list = append(list, sample{fmt.Sprintf("level %d: %s", level, name), frame, int64(len(text)), text})
		}
	}
	return list, nil
}

// golden gives the chunks that libzstd made for the tests of package codec: all
// levels, streamed, without content size, with checksums, several frames.
func golden(t testing.TB) (list []sample) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "codec", "testdata", "zstd.jsonl"))
	if err != nil {
		t.Skipf("the golden files of package codec are not on this machine: %v", err)
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct {
			Name, Data, Error string
			Encoded, Want     []byte
		}
		ok(t, json.Unmarshal(lines.Bytes(), &c))
		if c.Error != "" {
			continue
		}
		n := int64(len(c.Want))
		if c.Data != "" {
			var kind string
			_, err := fmt.Sscan(c.Data, &kind, &n)
			ok(t, err)
		}
		list = append(list, sample{c.Name, c.Encoded, n, nil})
	}
	ok(t, lines.Err())
	return list
}
