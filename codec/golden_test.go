package codec

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/nd"
)

// A goldenCase is a line of testdata/*.jsonl, written by testdata/gen.py with
// the codecs that other readers and writers of zarr use.
type goldenCase struct {
	Name        string
	Codec       string
	Config      json.RawMessage
	Encoded     []byte
	Data        string // name of the data set that must come out, or
	Want        []byte // the bytes themselves
	Error       string // or a word of the error,
	Unsupported bool   // which is of kind nd.ErrUnsupported rather than nd.ErrCorrupt
	Header      []byte // blosc: only the header of a frame is there
	Original    []byte // lossy codecs: what was encoded
}

func (g goldenCase) want(t testing.TB) []byte {
	if g.Data != "" {
		return dataSet(t, g.Data)
	}
	return g.Want
}

func goldenCases(t testing.TB, file string) []goldenCase {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	var cases []goldenCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var g goldenCase
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		cases = append(cases, g)
	}
	if lines.Err() != nil || len(cases) == 0 {
		t.Fatalf("%s: %d cases, %v", file, len(cases), lines.Err())
	}
	return cases
}

var goldenFiles = []string{"blosc", "zstd", "deflate", "lz4", "filters"}

func TestGolden(t *testing.T) {
	for _, file := range goldenFiles {
		t.Run(file, func(t *testing.T) {
			s := NewScratch()
			defer s.Close()
			for _, g := range goldenCases(t, file) {
				if g.Header != nil {
					continue // TestBloscBlockSize
				}
				t.Run(g.Name, func(t *testing.T) { checkGolden(t, g, s) })
			}
		})
	}
}

func checkGolden(t *testing.T, g goldenCase, s *Scratch) {
	c, want := stage(t, g.Codec, string(g.Config)), g.want(t)
	encoded := bytes.Clone(g.Encoded)
	dst := make([]byte, len(want))
	got, err := chain(t, len(want), c).Decode(dst, encoded, s)
	if g.Error != "" {
		kind := nd.ErrCorrupt
		if g.Unsupported {
			kind = nd.ErrUnsupported
		}
		wantKind(t, err, kind, g.Codec, g.Error)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("decodes to other bytes, first at %d of %d", firstDifference(got, want), len(want))
	}
	if !bytes.Equal(encoded, g.Encoded) {
		t.Fatal("the source was changed")
	}
	checkLimits(t, c, encoded, want, s)
	checkEncode(t, c, g, want, s)
}

// checkLimits gives the codec too little room and too much: the first must be an
// error, the second must not change the result.
func checkLimits(t *testing.T, c Codec, encoded, want []byte, s *Scratch) {
	roomy := bytes.Repeat([]byte{0xaa}, len(want)+64)
	got, err := c.Decode(roomy[:len(want)+32], encoded, s)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("with room to spare: %d bytes, %v", len(got), err)
	}
	for _, b := range roomy[len(want)+32:] {
		if b != 0xaa {
			t.Fatal("wrote beyond dst")
		}
	}
	if len(want) > 0 {
		_, err = c.Decode(make([]byte, len(want)-1), encoded, s)
		wantKind(t, err, nd.ErrCorrupt)
	}
}

// checkEncode wants our own encoding to come back too. (That others read it is
// TestOracleReadsOurs.)
func checkEncode(t *testing.T, c Codec, g goldenCase, want []byte, s *Scratch) {
	prefix := []byte("prefix")
	ours, err := c.Encode(bytes.Clone(prefix), want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(ours, prefix) {
		t.Fatal("Encode does not append")
	}
	got, err := c.Decode(make([]byte, len(want)), ours[len(prefix):], s)
	if err != nil {
		t.Fatal(err)
	}
	if !lossy(g.Codec) && !bytes.Equal(got, want) {
		t.Fatal("our encoding does not come back")
	}
	if g.Original != nil {
		if ours, _ := c.Encode(nil, g.Original); !bytes.Equal(ours, g.Encoded) {
			t.Fatal("our encoding of the original differs")
		}
	}
}

func lossy(codec string) bool {
	return codec == "fixedscaleoffset" || codec == "astype" || codec == "quantize" || codec == "delta"
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
