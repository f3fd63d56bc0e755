package kernels

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var corpusFolder = flag.String("corpus", filepath.Join("testdata", "corpus"), "folder of corpora for TestCorpus")

// A corpusChunk is a record of the files of tests/decoders/record.py, less what it says of the outcome.
type corpusChunk struct {
	method, typesize uint8
	flags            uint16
	src              []byte
	size             int
}

// readCorpus reads a file of the fuzzer, tests/decoders/fuzz.cc.
func readCorpus(t *testing.T, path string) (chunks []corpusChunk) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := append([]byte("HRCORP1\x00\x01\x00\x00\x00\x06\x00"), "fuzzed"...)
	rest, is := bytes.CutPrefix(data, head)
	if !is {
		t.Fatalf("%s is no corpus of the fuzzer", path)
	}
	for len(rest) > 0 {
		if len(rest) < 24 || uint32(len(rest)-24) < binary.LittleEndian.Uint32(rest[8:]) {
			t.Fatalf("%s is torn", path)
		}
		end := 24 + int(binary.LittleEndian.Uint32(rest[8:]))
		chunks = append(chunks, corpusChunk{
			flags: binary.LittleEndian.Uint16(rest[18:]), method: rest[20], typesize: rest[21], src: rest[24:end],
			size: int(binary.LittleEndian.Uint32(rest[12:])),
		})
		rest = rest[end:]
	}
	return chunks
}

// What the fuzzer found is decoded as codec does it: chunks that together reach all code
// that it knows a way to.
func TestCorpus(t *testing.T) {
	var decode, inflate []chunkCase
	var frames []zstdSource
	d, o := newDecoder(t), newZstdOracle(t)
	defer d.scratch.Close()
	for _, family := range []string{"bytes", "zstd", "inflate"} {
		for i, c := range readCorpus(t, filepath.Join(*corpusFolder, family+".corpus")) {
			name := fmt.Sprintf("%s %d", family, i)
			one := chunkCase{name: name, method: c.method, typesize: c.typesize, flags: c.flags, src: c.src, size: c.size}
			switch {
			case family == "zstd":
				s := zstdSource{name: name, src: c.src, size: c.size, method: c.method, typesize: c.typesize}
				s.foreign = c.method == BloscZstd && foreignToZstd(c.src)
				frames = append(frames, s)
			case family == "bytes":
				decode = append(decode, d.expect(t, one))
			case c.method == Zlib && c.flags&Unchecked != 0 && c.typesize < 2 && !bytes.HasPrefix(c.src, gzipMagic):
				inflate = append(inflate, unchecked(one))
			default:
				one.flags = 0
				inflate = append(inflate, d.expect(t, one))
			}
		}
	}
	onMachines(t, func(t *testing.T, m *machine) {
		decodeAll(t, m, decode)
		inflateAll(t, m, inflate)
		zstdAll(t, m, o, frames, false)
	})
}
