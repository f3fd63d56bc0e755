package decode_test

import (
	"bytes"
	"go/doc"
	"go/parser"
	"go/token"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/cuda/kernels"
)

// What the example does is what it says.
func TestExample(t *testing.T) {
	fake := cudatest.New(t)
	data := words(3000)
	got := must(decodeOne(fake.Path, encode(t, data), kernels.Zstd, len(data)))(t)
	if !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("not given back: %+v", live)
	}
}

// The example is shown as a whole file, with the function that does the work: go doc shows it so where a
// file has one example, other declarations and no test.
func TestExampleIsWhole(t *testing.T) {
	files := token.NewFileSet()
	file := must(parser.ParseFile(files, "example_test.go", nil, parser.ParseComments))(t)
	if list := doc.Examples(file); len(list) != 1 || list[0].Name != "" || list[0].Play == nil {
		t.Errorf("%d examples, or one that cannot be shown alone", len(list))
	} else if n := len(list[0].Play.Decls); n < 3 {
		t.Errorf("%d declarations of it are shown", n)
	}
}
