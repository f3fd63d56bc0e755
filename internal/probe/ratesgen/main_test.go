package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/probe"
)

const root = "../../.."

// The committed rates are what the files that they name give: no figure is typed by
// hand, and none is of another file.
func TestRatesAreOfTheirFiles(t *testing.T) {
	committed, err := os.ReadFile("../rates.json")
	if err != nil {
		t.Fatal(err)
	}
	var rates probe.Rates
	if err := json.Unmarshal(committed, &rates); err != nil {
		t.Fatal(err)
	}
	named := func(kind string) (names []string, err error) {
		for _, s := range rates.Sources {
			if strings.HasPrefix(path.Base(s.File), kind+"-") {
				names = append(names, filepath.Join(root, s.File))
			}
		}
		return names, nil
	}
	got, err := generate(named, rates.Sets, "")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(committed) {
		t.Errorf("rates.json differs from what its files give; write it again: go run ./internal/probe/ratesgen bench/results internal/probe/rates.json\n%s", got)
	}
}

// A set that nobody knows must be looked into, or the row must say what is inside.
func TestUnknownSet(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	row := `{"name":"new 64","result":{"what":"own","image":"cuda/kernels/kernels.ptx","set":"new.bin","chunks":64,"ms":2%s}}`
	rest := `{"date":"2026-12-01","commit":"x","machine":{"gpu":"NVIDIA X, 1"},"rows":[%s]}`
	file("kernels-20261201.json", fmt.Sprintf(rest, `{"name":"assemble u16 f32","result":{"what":"assemble u16 f32","GB_per_s":1000}}`))
	file("inflate-20261201.json", fmt.Sprintf(rest, `{"name":"own a-zlib6 64","result":{"what":"own","set":"a-zlib6","chunks":64,"ms":5}}`))
	file("gpu-20261201.json", fmt.Sprintf(rest, `{"name":"raw-none","result":{"copied_gb_per_s":50}}`))
	file("decoders-20261201.json", fmt.Sprintf(rest, fmt.Sprintf(row, "")))
	out := filepath.Join(dir, "rates.json")
	if err := write(newestIn(dir), out, ""); err == nil || !strings.Contains(err.Error(), "-sets") {
		t.Errorf("a set that is not known: %v", err)
	}
	// A newer file counts, unless it lacks the rows that are wanted.
	file("gpu-20261203.json", fmt.Sprintf(rest, `{"name":"other","result":{"copied_gb_per_s":1}}`))
	file("decoders-20261202.json", fmt.Sprintf(rest, fmt.Sprintf(row, `,"sequences_per_kib":100,"literal_share":0.5,"chunk_bytes":65536`)))
	if err := write(newestIn(dir), out, ""); err != nil {
		t.Fatal(err)
	}
	var rates probe.Rates
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &rates); err != nil {
		t.Fatal(err)
	}
	want := probe.Set{Kernel: "zstd", ChunkBytes: 65536, Features: probe.Features{SequencesPerKiB: 100, LiteralShare: 0.5}}
	if got := rates.Sets["zstd new"]; got != want || rates.Copy.GBPerS != 50 || rates.Assemble.GBPerS != 1000 || rates.Sources[0].GPU != "NVIDIA X" {
		t.Errorf("the rates are %s", text)
	}
	if err := write(newestIn(t.TempDir()), out, ""); err == nil || !strings.Contains(err.Error(), "none of 0 files decoders-*.json") {
		t.Errorf("no files: %v", err)
	}
}
