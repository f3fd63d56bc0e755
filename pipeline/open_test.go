package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/store/storetest"
	"github.com/headrace/headrace/zarr"
)

// TestOpenScripts runs testdata/open.txt: what lies in a store, and what is
// found there.
//
//	store               lines "key: content"; v2 and v3 stand for small arrays
//	open [path] [level=…]
//	inspect [path]
//	calls               what the last open or inspect asked the store for
func TestOpenScripts(t *testing.T) {
	s := &openScript{}
	datadriven.RunTest(t, "testdata/open.txt", s.run)
}

type openScript struct{ store *storetest.Counting }

const (
	openV2 = `{"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<u2", "fill_value": 0, "order": "C", "compressor": null, "filters": null}`
	openV3 = `{"zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "uint8", "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "chunk_key_encoding": "default", "fill_value": 0, "codecs": ["bytes"]}`
)

func (s *openScript) run(t *testing.T, d *datadriven.TestData) string {
	path, level := "", ""
	for _, arg := range d.CmdArgs {
		if arg.Key == "level" {
			level = arg.Vals[0]
		} else {
			path = arg.Key
		}
	}
	switch d.Cmd {
	case "store":
		s.store = storetest.NewCounting(store.NewMemory(objectsOf(d.Input)))
		return ""
	case "open":
		s.store.Reset()
		o, err := openArray(t.Context(), ArrayRef{URI: path, Level: level, Store: s.store}, store.Options{})
		if err != nil {
			return err.Error() + "\n"
		}
		return fmt.Sprintf("at %q: %s", o.prefix, arrayLine(o.array))
	case "inspect":
		s.store.Reset()
		n, err := InspectStore(t.Context(), s.store, path)
		if err != nil {
			return err.Error() + "\n"
		}
		return nodeLines(n)
	case "calls":
		var out strings.Builder
		for _, c := range s.store.Calls() {
			if c.Err == nil {
				fmt.Fprintf(&out, "%v %s\n", c.Op, c.Key)
			}
		}
		return out.String()
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func objectsOf(input string) map[string][]byte {
	objects := map[string][]byte{}
	for line := range strings.Lines(input) {
		key, content, _ := strings.Cut(strings.TrimSpace(line), ": ")
		content = strings.ReplaceAll(strings.ReplaceAll(content, "<v2>", openV2), "<v3>", openV3)
		objects[key] = []byte(content)
	}
	return objects
}

func arrayLine(a *zarr.Array) string {
	line := fmt.Sprintf("v%d %v %s, first chunk %s", a.Format, a.Shape, a.DType.DType, a.Key(make([]int64, len(a.Shape))))
	if a.DimensionNames != nil {
		line += fmt.Sprintf(", names %q", a.DimensionNames)
	}
	if a.Attributes != nil {
		line += fmt.Sprintf(", attributes %s", a.Attributes)
	}
	for _, note := range a.Notes {
		line += "\n  note: " + note
	}
	return line + "\n"
}

func nodeLines(n *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", n.URI, n.Name)
	if n.Array != nil {
		b.WriteString("array " + arrayLine(n.Array))
	}
	if n.Group != nil {
		fmt.Fprintf(&b, "group v%d attributes %s\n", n.Group.Format, n.Group.Attributes)
	}
	if n.Err != nil {
		fmt.Fprintf(&b, "error: %v\n", n.Err)
	}
	for _, m := range n.Multiscales {
		fmt.Fprintf(&b, "multiscale %q of %d levels\n", m.Name, len(m.Levels))
	}
	if n.Labels != nil {
		fmt.Fprintf(&b, "labels %q\n", n.Labels)
	}
	for _, c := range n.Children {
		switch {
		case c.Group:
			fmt.Fprintf(&b, "  %s/\n", c.Path)
		case c.Err != nil:
			fmt.Fprintf(&b, "  %s error: %v\n", c.Path, c.Err)
		default:
			fmt.Fprintf(&b, "  %s %s", c.Path, arrayLine(c.Array))
		}
	}
	for _, note := range n.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

// A failure to look is not an absence: whatever call fails while an array or a
// group is opened, the error is that of the store, never nd.ErrNotFound and
// never an array with fewer chunks.
func TestOpenFailuresAreNotAbsence(t *testing.T) {
	objects := objectsOf("a/.zarray: <v2>\na/.zattrs: {}\na/1/1: x\n.zattrs: {\"multiscales\": [{\"datasets\": [{\"path\": \"a\"}]}]}\n.zgroup: {\"zarr_format\": 2}")
	for _, op := range []storetest.Op{storetest.OpRead, storetest.OpSize, storetest.OpList} {
		for call := 1; ; call++ {
			st := storetest.NewFault(store.NewMemory(objects), storetest.Rule{Op: op, From: call, Count: 1})
			_, err := openArray(t.Context(), ArrayRef{Store: st}, store.Options{})
			hit := st.Hits() > 0
			if hit && !errors.Is(err, nd.ErrIO) {
				t.Errorf("call %d of %v fails: error %v", call, op, err)
			}
			if !hit {
				if err != nil || call == 1 {
					t.Errorf("%v: %d calls, then %v", op, call-1, err)
				}
				break
			}
		}
		for call := 1; ; call++ {
			st := storetest.NewFault(store.NewMemory(objects), storetest.Rule{Op: op, From: call, Count: 1})
			_, err := InspectStore(t.Context(), st, "")
			if st.Hits() == 0 {
				break
			}
			if !errors.Is(err, nd.ErrIO) {
				t.Errorf("inspect: call %d of %v fails: error %v", call, op, err)
			}
		}
	}
}

// closing counts Close.
type closing struct {
	store.Store
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return c.Store.Close()
}

// A store that was handed in stays open, whatever happens.
func TestOpenKeepsForeignStore(t *testing.T) {
	st := &closing{Store: store.NewMemory(objectsOf("a/zarr.json: <v3>\nb/zarr.json: {}"))}
	for _, uri := range []string{"a", "/a/", "b", "c"} {
		_, err := openArray(t.Context(), ArrayRef{URI: uri, Store: st}, store.Options{})
		if (err == nil) != (strings.Trim(uri, "/") == "a") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if st.closed != 0 {
		t.Errorf("closed %d times", st.closed)
	}
}

// TestInspectPath reads a hierarchy on disk, by path and by file URI.
func TestInspectPath(t *testing.T) {
	root := t.TempDir()
	for key, doc := range objectsOf("zarr.json: {\"zarr_format\": 3, \"node_type\": \"group\"}\na b/zarr.json: <v3>\nplain/file: x") {
		name := filepath.Join(root, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Inspect(t.Context(), "file://"+root)
	if err != nil {
		t.Fatal(err)
	}
	if n.Group == nil || len(n.Children) != 1 || n.Children[0].Path != "a b" || n.URI != "file://"+root {
		t.Errorf("node %+v", n)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	o, err := openArray(t.Context(), ArrayRef{URI: filepath.Join(root, "a b")}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.prefix != "" || !slices.Equal(o.array.Shape, []int64{4, 6}) {
		t.Errorf("prefix %q, shape %v", o.prefix, o.array.Shape)
	}
	if err := o.store.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"plain", "nothing"} {
		_, err := Inspect(t.Context(), filepath.Join(root, path))
		if !errors.Is(err, nd.ErrNotFound) || !strings.Contains(err.Error(), filepath.Join(root, path)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestInspectIsBounded: a folder of very many nodes is listed in part.
func TestInspectIsBounded(t *testing.T) {
	objects := objectsOf(`.zgroup: {"zarr_format": 2}`)
	for i := range maxChildren + 1 {
		objects[fmt.Sprintf("%04d/.zgroup", i)] = []byte(`{"zarr_format": 2}`)
	}
	n, err := InspectStore(t.Context(), store.NewMemory(objects), "")
	if err != nil || len(n.Children) != maxChildren || n.Notes == nil {
		t.Errorf("%d children, notes %q, error %v", len(n.Children), n.Notes, err)
	}
}

// A scale makes fractions: a field that keeps an integer type would cut them off,
// so the type must be given. One that is given, or a float, is what was asked for.
func TestScaleOfIntegersNeedsType(t *testing.T) {
	for _, c := range []struct {
		stored, given nd.DType
		refused       bool
	}{{nd.U16, nd.Invalid, true}, {nd.I8, nd.Invalid, true}, {nd.U16, nd.U16, false}, {nd.U16, nd.F32, false}, {nd.F32, nd.Invalid, false}} {
		l := layout{shape: []int64{4, 4}, chunk: []int64{4, 4}, dtype: c.stored, codec: "zstd"}
		a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
		p, err := Open(context.Background(), Config{
			Arrays:    []ArrayRef{{URI: "cube", Store: a.stored("cube")}},
			Fields:    []Field{{Name: "x", Shape: []int{4, 4}, DType: c.given, Scale: []float64{0.5}}},
			BatchSize: 1,
		})
		if c.refused != errors.Is(err, nd.ErrConfig) || !c.refused && err != nil {
			t.Errorf("%s as %s: %v", c.stored, c.given, err)
		}
		if err == nil {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
