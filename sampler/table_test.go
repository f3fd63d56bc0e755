package sampler_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// tableFields are two pairs of arrays, image0 and image1, of a window of 2 by 4.
func tableFields() []sampler.Field {
	return []sampler.Field{
		field("image", 0, []int64{2, 4}, []int64{10, 20}, []int64{6, 8}),
		field("label", 5, []int64{2}, []int64{20}, []int64{8}),
	}
}

const jsonTable = `{"array": 0, "start": [1, 2]}
{"start": [4, 4], "array": "image1", "flip": [-1], "weight": 2.5}

{"array": 1, "start": [0, 0], "flip": [-2, -1]}
`

// Both formats say the same: one table, one fingerprint.
func TestTables(t *testing.T) {
	text := strings.Replace(jsonTable, `, "weight": 2.5`, "", 1)
	fromJSON, err := sampler.ReadJSONLines(strings.NewReader(text), sampler.TableCrops{Fields: tableFields()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"start":   "array,start,flip\n0,1 2,\nimage1,4 4,-1\n1,0 0,-2 -1\n",
		"columns": "\ufeffstart1,start0,flip,array\r\n2,1,,0\r\n\r\n4, 4,\"-1\", image1\r\n0,0,-1 -2,1",
	} {
		table, err := sampler.ReadCSV(iotest.OneByteReader(strings.NewReader(text)), sampler.TableCrops{Fields: tableFields()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if table.Len() != 3 || table.Fingerprint() != fromJSON.Fingerprint() || table.Weights() != nil {
			t.Errorf("%s: %d rows, fingerprint %s, JSON's %s", name, table.Len(), table.Fingerprint(), fromJSON.Fingerprint())
		}
		for i := range table.Len() {
			if a, b := fmt.Sprint(table.Sample(i)), fmt.Sprint(fromJSON.Sample(i)); a != b {
				t.Errorf("%s: sample %d is %s, in JSON %s", name, i, a, b)
			}
		}
	}
	s := fromJSON.Sample(1)
	image, label := s.Crops[0], s.Crops[1]
	if s.ID != 1 || image.Array != 1 || image.Box.String() != "4:6,4:8" || image.Flip != 2 || label.Array != 6 || label.Box.String() != "5:7" || label.Flip != 1 {
		t.Errorf("sample 1: %+v", s)
	}
	if fromJSON.Sample(3).Crops != nil || fromJSON.Sample(-1).Crops != nil {
		t.Error("samples that are not there have crops")
	}
	other, err := sampler.ReadJSONLines(strings.NewReader(strings.Replace(text, "[1, 2]", "[1, 3]", 1)), sampler.TableCrops{Fields: tableFields()})
	if err != nil || other.Fingerprint() == fromJSON.Fingerprint() {
		t.Errorf("another start has the same fingerprint (%v)", err)
	}
}

func TestTableWeights(t *testing.T) {
	table, err := sampler.ReadCSV(strings.NewReader("start,weight,array\n0 0,1,0\n1 1,0.25,1\n"), sampler.TableCrops{Fields: tableFields()})
	if err != nil || !slices.Equal(table.Weights(), []float64{1, 0.25}) {
		t.Errorf("weights %v %v", table.Weights(), err)
	}
}

// One group needs no array column, unknown columns can be passed over, crops may
// reach outside where that is allowed, and a text without rows is an empty table.
func TestTableOptions(t *testing.T) {
	one := []sampler.Field{field("a", 0, []int64{4}, []int64{10})}
	c := sampler.TableCrops{Fields: one, Extra: true, Outside: true}
	table, err := sampler.ReadCSV(strings.NewReader("class,start0\n\"cat, or dog\",-3\nbird,9\n"), c)
	if err != nil || table.Sample(0).Crops[0].Box.String() != "-3:1" || table.Sample(1).Crops[0].Box.String() != "9:13" {
		t.Errorf("%+v %v", table, err)
	}
	table, err = sampler.ReadJSONLines(strings.NewReader(`{"class": {"a": [1]}, "start": [0]}`), c)
	if err != nil || table.Len() != 1 {
		t.Errorf("%+v %v", table, err)
	}
	empty, err := sampler.ReadJSONLines(strings.NewReader("\n"), c)
	if err != nil || empty.Len() != 0 {
		t.Errorf("%+v %v", empty, err)
	}
	empty, err = sampler.ReadCSV(strings.NewReader("start\n"), c)
	if err != nil || empty.Len() != 0 {
		t.Errorf("%+v %v", empty, err)
	}
	scalar, err := sampler.ReadJSONLines(strings.NewReader(`{"start": []}`), sampler.TableCrops{Fields: []sampler.Field{field("a", 0, nil, []int64{})}})
	if err != nil || scalar.Len() != 1 || len(scalar.Sample(0).Crops) != 1 {
		t.Errorf("%+v %v", scalar, err)
	}
}

// An error names its line and says what is wrong with it.
func TestBadTables(t *testing.T) {
	check := func(what string, err, kind error, words string) {
		t.Helper()
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, want %v with %q", what, err, kind, words)
		}
	}
	j := func(line string, kind error, words string) {
		t.Helper()
		text := "{\"array\": 0, \"start\": [0, 0]}\n\n" + line + "\n"
		_, err := sampler.ReadJSONLines(strings.NewReader(text), sampler.TableCrops{Fields: tableFields()})
		check(line, err, kind, "line 3: "+words)
	}
	j(`{`, nd.ErrCorrupt, "no JSON object")
	j(`null`, nd.ErrCorrupt, "no JSON object")
	j(`[1]`, nd.ErrCorrupt, "no JSON object")
	j(`{"array": 0}`, nd.ErrCorrupt, "start is missing")
	j(`{"start": [0, 0]}`, nd.ErrCorrupt, "array is missing")
	j(`{"array": 0, "start": null}`, nd.ErrCorrupt, "start is null")
	j(`{"array": null, "start": [0, 0]}`, nd.ErrCorrupt, "array null")
	j(`{"array": true, "start": [0, 0]}`, nd.ErrCorrupt, "array true")
	j(`{"array": 2, "start": [0, 0]}`, nd.ErrCorrupt, "array 2: there are 2")
	j(`{"array": -1, "start": [0, 0]}`, nd.ErrCorrupt, "array -1")
	j(`{"array": "label0", "start": [0, 0]}`, nd.ErrCorrupt, `array "label0"`)
	j(`{"array": 0, "start": [0]}`, nd.ErrCorrupt, "start [0] has 1 axes")
	j(`{"array": 0, "start": [0, 0.5]}`, nd.ErrCorrupt, "start: ")
	j(`{"array": 0, "start": [0, 0], "start": [1, 1]}`, nd.ErrCorrupt, `"start" comes twice`)
	j(`{"array": 0, "start": [0, 0]`, nd.ErrCorrupt, "no JSON object")
	j(`{"array": 0, "start": [0, 0],}`, nd.ErrCorrupt, "no JSON object")
	j(`{"array": 0, "start": }`, nd.ErrCorrupt, "no JSON object")
	j(`{"array" 0}`, nd.ErrCorrupt, "no JSON object")
	j(`{array: 0}`, nd.ErrCorrupt, "no JSON object")
	j(`{1: 0}`, nd.ErrCorrupt, "no JSON object")
	j(`{"array": 0, "start": [null, 0]}`, nd.ErrCorrupt, "start: null is no number")
	j(`{"array": 0, "start": [0, 0], "flip": [null]}`, nd.ErrCorrupt, "flip: null is no number")
	j(`{"array": 0, "start": [9, 0]}`, nd.ErrShape, "start 9 on axis 0: a window of 2 reaches outside array image0")
	j(`{"array": 0, "start": [0, 9223372036854775807]}`, nd.ErrShape, "start 9223372036854775807 on axis 1")
	j(`{"array": 0, "start": [0, 0], "flip": [0]}`, nd.ErrCorrupt, "flip axis 0")
	j(`{"array": 0, "start": [0, 0], "flip": [-1, -1]}`, nd.ErrCorrupt, "flip axis -1 is given twice")
	j(`{"array": 0, "start": [0, 0], "flpi": [-1], "z": 1}`, nd.ErrCorrupt, "unknown names flpi, z")
	j(`{"array": 0, "start": [0, 0], "weight": 1}`, nd.ErrCorrupt, "weight: either every row")
	j(`{"array": 0, "start": [0, 0]} {}`, nd.ErrCorrupt, "no JSON object")

	c := func(text string, kind error, words string) {
		t.Helper()
		_, err := sampler.ReadCSV(strings.NewReader(text), sampler.TableCrops{Fields: tableFields()})
		check(text, err, kind, words)
	}
	c("", nd.ErrCorrupt, "empty")
	long := strings.Repeat("x", 1000)
	for _, text := range []string{"array,start\n0," + long + "\n", "array,start0,start1\n0," + long + ",0\n", "array,start\n" + long + ",0 0\n", "array,start,weight\n0,0 0," + long + "\n", "array,start," + long + "\n"} {
		if _, err := sampler.ReadCSV(strings.NewReader(text), sampler.TableCrops{Fields: tableFields()}); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.30q…: an error of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
	c("array,start,x\n", nd.ErrCorrupt, `line 1: unknown names "x"`)
	c("array,start,array\n", nd.ErrCorrupt, "line 1: column array is there twice")
	c("array,flip\n", nd.ErrCorrupt, "line 1: column start0 is missing")
	c("array,start0\n", nd.ErrCorrupt, "line 1: column start1 is missing")
	c("array,start,start0\n", nd.ErrCorrupt, "give one of them")
	c("start\n", nd.ErrCorrupt, "line 1: column array is missing")
	c("array,start\n0,1 x\n", nd.ErrCorrupt, `line 2: start "1 x"`)
	c("array,start0,start1\n0,1,\n", nd.ErrCorrupt, `line 2: start1 ""`)
	c("array,start\n0\n", nd.ErrCorrupt, "line 2: column 1: wrong number of fields")
	c("array,start\n0,\"1 1\n0,1 1\n", nd.ErrCorrupt, "line 2: column")
	c("array,start,flip\n0,1 1,a\n", nd.ErrCorrupt, `line 2: flip "a"`)
	c("array,start,weight\n0,1 1,much\n", nd.ErrCorrupt, `line 2: weight "much"`)
	c("array,start,weight\n0,1 1,-1\n", nd.ErrCorrupt, "line 2: weight -1")
	c("array,start,weight\n0,1 1,NaN\n", nd.ErrCorrupt, "line 2: weight NaN")
	c("array,start\n0,0 99\n", nd.ErrShape, "line 2: start 99")
	c("array,start\n"+strings.Repeat("x", 2<<20), nd.ErrCorrupt, "line 2 is longer")

	same := tableFields()
	same[0].Arrays[1].Name = "image0"
	_, err := sampler.ReadCSV(strings.NewReader("array,start\nimage0,0 0\n"), sampler.TableCrops{Fields: same})
	check("two of a name", err, nd.ErrCorrupt, "name of several")
	_, err = sampler.ReadCSV(strings.NewReader(""), sampler.TableCrops{})
	check("no field", err, nd.ErrConfig, "no field")
	_, err = sampler.ReadJSONLines(strings.NewReader(""), sampler.TableCrops{Fields: tableFields(), MaxRows: -1})
	check("limits", err, nd.ErrConfig, "MaxRows is -1")
	broken := io.MultiReader(strings.NewReader(jsonTable[:30]), iotest.ErrReader(errors.New("gone")))
	_, err = sampler.ReadJSONLines(broken, sampler.TableCrops{Fields: tableFields()})
	check("a reader that fails", err, nd.ErrIO, "after line 1: gone")
}

// A table ends at its limits with an error, never cut off; at exactly the limit it
// is whole.
func TestTableLimits(t *testing.T) {
	one := []sampler.Field{field("a", 0, []int64{4}, []int64{10})}
	text := strings.Repeat(`{"start": [1]}`+"\n", 100)
	read := func(rows, bytes int64) error {
		table, err := sampler.ReadJSONLines(strings.NewReader(text), sampler.TableCrops{Fields: one, MaxRows: rows, MaxBytes: bytes})
		if err == nil && table.Len() != 100 {
			t.Errorf("%d rows", table.Len())
		}
		return err
	}
	if err := read(100, int64(len(text))); err != nil {
		t.Error(err)
	}
	if err := read(99, 0); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "line 100: more than 99 rows") {
		t.Errorf("99 rows: %v", err)
	}
	if err := read(0, int64(len(text))-1); !errors.Is(err, nd.ErrBudget) || !strings.Contains(err.Error(), "raise MaxBytes") {
		t.Errorf("a byte too many: %v", err)
	}
}

// fuzzTable checks that no text makes a reader panic, and that the samples of a
// table that is accepted lie in their arrays.
func fuzzTable(f *testing.F, read func(io.Reader, sampler.TableCrops) (*sampler.Table, error)) {
	f.Fuzz(func(t *testing.T, text []byte) {
		fields := tableFields()
		c := sampler.TableCrops{Fields: fields, Extra: len(text)%2 == 0, MaxRows: 50, MaxBytes: 4000}
		table, err := read(strings.NewReader(string(text)), c)
		if err != nil {
			if !errors.Is(err, nd.ErrCorrupt) && !errors.Is(err, nd.ErrShape) && !errors.Is(err, nd.ErrBudget) {
				t.Fatalf("%v is of no kind for bad text", err)
			}
			return
		}
		for i := range table.Len() {
			for k, crop := range table.Sample(i).Crops {
				if shape := fields[k].Arrays[crop.Array%5].Shape; !crop.Box.Within(shape) {
					t.Fatalf("sample %d: %s is outside %v", i, crop.Box, shape)
				}
			}
		}
		if w := table.Weights(); w != nil && int64(len(w)) != table.Len() {
			t.Fatalf("%d weights for %d rows", len(w), table.Len())
		}
	})
}

func FuzzJSONLines(f *testing.F) {
	f.Add([]byte(jsonTable))
	f.Add([]byte(`{"array": "image1", "start": [4, 4], "weight": 1e300, "x": null}`))
	f.Add([]byte("{\"array\":0,\"start\":[-1,9223372036854775807]}\r\n\r\n"))
	fuzzTable(f, sampler.ReadJSONLines)
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("array,start,flip\n0,1 2,\nimage1,4 4,-1\n"))
	f.Add([]byte("\ufeffstart1,start0,flip,array,weight\r\n2,1,,0,0x1p-2\r\n4, 4,\"-1\", image1,1"))
	f.Add([]byte("array,start\n0,\"1 2\n\"\n"))
	fuzzTable(f, sampler.ReadCSV)
}
