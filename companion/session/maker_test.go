package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Sources are made of others: a table of a file, its rows as often as they weigh, and
// all that mixed with a grid. They share one list of arrays.
func TestSourcesOfSources(t *testing.T) {
	a, b := writeArray(t, 0), writeArray(t, 50)
	span := func(arrays ...string) []sourceSpan {
		return []sourceSpan{{Name: "x", Arrays: arrays, Shape: []int64{4}}}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte("start,weight\n0,1\n4,0\n8,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table := sourceSpec{Kind: "table", Path: "rows.csv", Format: "csv", Fields: span(b)}
	weighted := sourceSpec{Kind: "weighted", Count: 8, Parts: []sourcePart{{Source: table}}}
	grid := sourceSpec{Kind: "grid", Tail: "drop", Fields: span(a, b)}
	mix := &sourceSpec{Kind: "mix", Count: 30, Parts: []sourcePart{{Source: weighted, Weight: 2}, {Source: grid, Weight: 1}}}
	o, err := openSource(t.Context(), &request{Source: mix, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.arrays) != 2 || len(o.feeds) != 1 || len(o.feeds[0]) != 3 {
		t.Errorf("arrays %v, feeds %v", o.arrays, o.feeds)
	}
	ids := make([]int64, o.source.Len())
	for i := range ids {
		ids[i] = int64(i)
	}
	parts := map[int64]int{}
	for _, origin := range origins(o.source, 3, ids) {
		parts[origin[0]]++
	}
	if parts[0] != 20 || parts[1] != 10 {
		t.Errorf("%v of the parts, want 20 and 10", parts)
	}
	once, err := openSource(t.Context(), &request{Source: &weighted, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int64]int{}
	for _, origin := range origins(once.source, 0, ids[:8]) {
		rows[origin[1]]++
	}
	if rows[0] != 2 || rows[1] != 0 || rows[2] != 6 {
		t.Errorf("rows come %v times, want 2, 0 and 6", rows)
	}
}

// What is wrong with a source within another is told like that of one alone.
func TestRefusedSources(t *testing.T) {
	a := writeArray(t, 0)
	fields := []sourceSpan{{Name: "x", Arrays: []string{a}, Shape: []int64{4}}}
	f := func(kind error, says string, spec sourceSpec) {
		t.Helper()
		for _, s := range []sourceSpec{spec, {Kind: "mix", Parts: []sourcePart{{Source: spec}}}} {
			if _, err := openSource(t.Context(), &request{Source: &s}); !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want %v with %q", err, kind, says)
			}
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{\"start\": [0]}\n{\"start\": [99]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f(nd.ErrNotFound, "absent.csv", sourceSpec{Kind: "table", Path: "absent.csv", Format: "csv", Fields: fields})
	f(nd.ErrShape, "line 2", sourceSpec{Kind: "table", Path: bad, Format: "jsonl", Fields: fields})
	f(nd.ErrShape, "bad.jsonl", sourceSpec{Kind: "table", Path: bad, Format: "jsonl", Fields: fields})
	f(nd.ErrCorrupt, "line 1", sourceSpec{Kind: "table", Text: "[]", Format: "jsonl", Fields: fields})
	f(nd.ErrNotFound, "absent", sourceSpec{Kind: "grid", Tail: "drop", Fields: []sourceSpan{{Name: "x", Arrays: []string{"absent"}, Shape: []int64{4}}}})
	grid := sourcePart{Source: sourceSpec{Kind: "grid", Tail: "drop", Fields: fields}}
	f(nd.ErrConfig, "weights are not given", sourceSpec{Kind: "weighted", Parts: []sourcePart{grid}})
	f(nd.ErrConfig, "2 weights", sourceSpec{Kind: "weighted", Parts: []sourcePart{grid}, Factors: []float64{1, 2}})
	f(nd.ErrBug, "novel", sourceSpec{Kind: "novel"})
}
