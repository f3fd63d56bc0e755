package zarr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/headrace/headrace/nd"
)

// TestGolden runs the scripts of testdata: metadata in, what we take them to
// mean out. Run with -rewrite after a change and read the difference.
//
//	array                 a whole document
//	v2, v3                lines "member: JSON" laid over a small document; "-member" deletes
//	fill, dtype  v2|v3 …  one JSON value a line, one result a line
//	keys, chunks          of the array read last
//	index                 lines "offset length" for the shard index of the array read last
//	canonical, attributes, group, consolidated, multiscales, labels, path
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		g := &golden{}
		datadriven.RunTest(t, path, g.run)
	})
}

type golden struct{ a *Array }

func (g *golden) run(t *testing.T, d *datadriven.TestData) string {
	input := []byte(d.Input)
	switch d.Cmd {
	case "array":
		return g.parse(input)
	case "v2":
		return g.parse(overlay(t, baseV2, d.Input))
	case "v3":
		return g.parse(overlay(t, baseV3, d.Input))
	case "fill":
		return eachLine(d.Input, func(line string) (string, error) {
			return fillOf(t, d.CmdArgs[0].Key, d.CmdArgs[1].Key, line)
		})
	case "dtype":
		return eachLine(d.Input, func(line string) (string, error) { return dtypeOf(t, d.CmdArgs[0].Key, line) })
	case "keys":
		return g.keys(d)
	case "chunks":
		return g.chunks(t, d)
	case "index":
		return g.index(d)
	case "canonical":
		return string(g.a.Canonical()) + "\n"
	case "attributes":
		a, err := g.a.WithAttributes(input)
		return result(func() string { return describe(a) }, err)
	case "group":
		group, err := ParseGroup(input)
		return result(func() string { return describeGroup(group) }, err)
	case "consolidated":
		docs, err := ParseConsolidated(input)
		return result(func() string { return describeDocs(docs) }, err)
	case "multiscales":
		all, err := ParseMultiscales(input)
		return result(func() string { return describeMultiscales(all) }, err)
	case "labels":
		labels, err := ParseLabels(input)
		return result(func() string { return fmt.Sprintf("%q\n", labels) }, err)
	case "path":
		return eachLine(d.Input, func(line string) (string, error) {
			path, err := CleanPath(line)
			return fmt.Sprintf("%q", path), err
		})
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

const (
	baseV3 = `{"zarr_format": 3, "node_type": "array", "shape": [10, 20], "data_type": "uint8",
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8]}},
		"chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]}`
	baseV2 = `{"zarr_format": 2, "shape": [10, 20], "chunks": [4, 8], "dtype": "|u1", "fill_value": 0,
		"order": "C", "compressor": null, "filters": null, "dimension_separator": "."}`
)

// overlay lays lines "member: JSON" over a document.
func overlay(t *testing.T, base, lines string) []byte {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(base), &doc); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "-"); ok {
			delete(doc, name)
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		doc[name] = json.RawMessage(value)
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		members = append(members, fmt.Sprintf("%q: %s", name, doc[name]))
	}
	return []byte("{" + strings.Join(members, ", ") + "}")
}

func (g *golden) parse(doc []byte) string {
	a, err := ParseArray(doc)
	if err == nil {
		g.a = a
	}
	return result(func() string { return describe(a) }, err)
}

func result(text func() string, err error) string {
	if err != nil {
		return failure(err) + "\n"
	}
	return text()
}

// failure names the kind as a caller sees it, and says so if there is none.
func failure(err error) string {
	var e *nd.Error
	if !errors.As(err, &e) {
		return "NO KIND: " + err.Error()
	}
	return e.Error()
}

func eachLine(input string, f func(string) (string, error)) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSuffix(line, "\n")
		text, err := f(line)
		if err != nil {
			text = failure(err)
		}
		fmt.Fprintf(&out, "%s -> %s\n", line, text)
	}
	return out.String()
}

func dtypeOf(t *testing.T, format, line string) (string, error) {
	doc := overlay(t, baseV2, "dtype: "+line)
	if format == "v3" {
		doc = overlay(t, baseV3, "data_type: "+line+"\ncodecs: [{\"name\":\"bytes\",\"configuration\":{\"endian\":\"little\"}}]")
	}
	a, err := ParseArray(doc)
	if err != nil {
		return "", err
	}
	return describeDType(a.DType), nil
}

func fillOf(t *testing.T, format, dtype, line string) (string, error) {
	doc := overlay(t, baseV2, fmt.Sprintf("dtype: %q\nfill_value: %s", dtype, line))
	if format == "v3" {
		codecs := `[{"name":"bytes","configuration":{"endian":"little"}}]`
		doc = overlay(t, baseV3, fmt.Sprintf("data_type: %q\ncodecs: %s\nfill_value: %s", dtype, codecs, line))
	}
	a, err := ParseArray(doc)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%x", a.Fill)
	for _, note := range a.Notes {
		text += " (" + note + ")"
	}
	return text, nil
}

// keys lists the keys at coordinates, one a line: "1 2 3", or "()" without axes.
func (g *golden) keys(d *datadriven.TestData) string {
	return eachLine(d.Input, func(line string) (string, error) {
		coord, err := ints(line)
		return g.a.Key(coord), err
	})
}

func (g *golden) chunks(t *testing.T, d *datadriven.TestData) string {
	return eachLine(d.Input, func(line string) (string, error) {
		box, err := nd.ParseBox(strings.Trim(line, "()"))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for coord := range g.a.Chunks(box) {
			all = append(all, fmt.Sprint(coord))
		}
		return strings.Join(all, " "), nil
	})
}

func ints(line string) ([]int64, error) {
	var out []int64
	for field := range strings.FieldsSeq(strings.Trim(line, "()")) {
		var n int64
		if _, err := fmt.Sscan(field, &n); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// index encodes the entries as the index of Levels[0] says and parses them; "x"
// stands for 2^64-1. Arguments: object=bytes, short (one byte less), flip (a bit
// of the checksum).
func (g *golden) index(d *datadriven.TestData) string {
	ix := g.a.Levels[0].Index
	var entries []Entry
	for line := range strings.Lines(d.Input) {
		var e Entry
		fields := strings.Fields(strings.ReplaceAll(line, "x", "18446744073709551615"))
		_, _ = fmt.Sscan(fields[0], &e.Offset)
		_, _ = fmt.Sscan(fields[1], &e.Length)
		entries = append(entries, e)
	}
	raw := encodeIndex(ix, entries)
	object := int64(1000)
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "object":
			_, _ = fmt.Sscan(arg.Vals[0], &object)
		case "short":
			raw = raw[:len(raw)-1]
		case "flip":
			raw[len(raw)-1] ^= 1
		}
	}
	got, err := ix.Parse(nil, raw, object)
	return result(func() string {
		var out bytes.Buffer
		for i, e := range got {
			if e.Missing() {
				fmt.Fprintf(&out, "%d missing\n", i)
				continue
			}
			fmt.Fprintf(&out, "%d %d+%d\n", i, e.Offset, e.Length)
		}
		return out.String()
	}, err)
}
