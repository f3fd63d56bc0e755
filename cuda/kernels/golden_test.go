package kernels

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// goldenCase is a line of a file that package codec is tested with: what an encoder of
// others wrote, or that damaged, and what it decodes to.
type goldenCase struct {
	Name    string
	Encoded []byte
	Header  []byte // a header alone, instead of Encoded
	Data    string // the recipe of Want, where it is not written out: a name, its size
	Want    []byte
}

// size is how many bytes are asked for.
func (g *goldenCase) size(t testing.TB) int {
	t.Helper()
	if g.Data == "" {
		return len(g.Want)
	}
	size := 0
	if _, err := fmt.Sscanf(g.Data, "%s %d", new(string), &size); err != nil {
		t.Fatal(err)
	}
	return size
}

// goldenCases reads a file of package codec's.
func goldenCases(t testing.TB, file string) (cases []goldenCase) {
	t.Helper()
	readLines(t, filepath.Join("..", "..", "codec", "testdata", file), func(line []byte) {
		var g goldenCase
		if err := json.Unmarshal(line, &g); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, g)
	})
	return cases
}

// readLines gives the lines of a file, up to 1 MiB each, one after the other.
func readLines(t testing.TB, path string, each func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		each(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
