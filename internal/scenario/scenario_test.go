package scenario

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

const minimal = `{
 "dataset": {"store_root": "data/x", "n_zarrs": 2, "zarr_shape": [64,64], "chunk_shape": [16,16]},
 "sampling": {"sample_shape": [8,8], "n_batches": 2, "samples_per_batch": 4},
 "pipeline": {"dtype": "f32", "lookahead_samples": 8, "n_io_threads": 2}}`

func TestDefaults(t *testing.T) {
	s, err := Parse([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	d := s.Dataset
	if d.Entropy != 0.5 || d.Seed != 42 || d.CLevel != 3 || d.ZarrFormat != 3 || d.Field != "mask50" || s.Sampling.Seed != 1234 {
		t.Errorf("defaults differ from damacy's: %+v", d)
	}
	if got, want := d.Paths(), []string{"z000/scale0/image", "z001/scale0/image"}; !reflect.DeepEqual(got, want) {
		t.Errorf("paths %v, want %v", got, want)
	}
	d.URIFmt = "vol-%02u/a"
	if got := d.Paths()[1]; got != "vol-01/a" {
		t.Errorf("uri_fmt gives %q", got)
	}
}

// Every file that ships must parse, and its echo must mean the same.
func TestShippedScenarios(t *testing.T) {
	files, err := filepath.Glob("../../bench/scenarios/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		s, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".json"); s.Name != want {
			t.Errorf("%s: name is %q", file, s.Name)
		}
		if !strings.HasPrefix(s.Dataset.StoreRoot, "data/") {
			t.Errorf("%s: store_root %q is not under data/", file, s.Dataset.StoreRoot)
		}
		echo, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(echo)
		if err != nil {
			t.Errorf("%s: the echo does not parse: %v", file, err)
		} else if !reflect.DeepEqual(s, again) {
			t.Errorf("%s: the echo reads as\n%+v\nnot\n%+v", file, again, s)
		}
	}
}

func TestChainForms(t *testing.T) {
	f := func(text string, want Chain) {
		t.Helper()
		var got Chain
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	f(`"zstd"`, Chain{{Name: "zstd"}})
	f(`["transpose", "zstd"]`, Chain{{Name: "transpose"}, {Name: "zstd"}})
	f(`{"name":"gzip","configuration":{"level":1}}`, Chain{{Name: "gzip", Config: []byte(`{"level":1}`)}})

	var c Chain
	for _, bad := range []string{`3`, `{}`, `{"name":"zstd","level":3}`} {
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// A bad file must name every wrong key at once and be a config error, which the
// command line turns into exit code 2.
func TestBadScenarios(t *testing.T) {
	f := func(text string, words ...string) {
		t.Helper()
		_, err := Parse([]byte(text))
		if !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%s: got %v, want a config error", text, err)
			return
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("the message has several lines: %q", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("message %q does not name %q", err, w)
			}
		}
	}
	edit := func(old, repl string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("%q is not in the minimal scenario", old)
		}
		return strings.Replace(minimal, old, repl, 1)
	}
	f(`{`, "scenario")
	f(minimal+"{}", "follows")
	f(edit(`"n_zarrs"`, `"n_zars"`), "n_zars")
	f(edit(`"n_zarrs": 2`, `"n_zarrs": 0`), "n_zarrs")
	f(edit(`[16,16]`, `[16,0]`), "chunk_shape[1]")
	f(edit(`[8,8]`, `[65,8]`), "sample_shape[0]", "64")
	f(edit(`[8,8]`, `[8,8,8]`), "3 axes")
	f(edit(`"f32"`, `"f33"`), "pipeline.dtype")
	f(edit(`"n_batches": 2, "samples_per_batch": 4`, `"n_batches": 0, "samples_per_batch": 0`), "n_batches", "samples_per_batch")
	f(edit(`"n_zarrs"`, `"uri_fmt": "z%s", "n_zarrs"`), "uri_fmt", "z%s")
	f(edit(`"n_zarrs"`, `"uri_fmt": "z%03u/%d", "n_zarrs"`), "uri_fmt")
	f(edit(`"n_zarrs"`, `"uri_fmt": "image", "n_zarrs"`), "uri_fmt", "all numbers")
	f(edit(`"n_zarrs": 2`, `"n_zarrs": 2000000`), "n_zarrs")
	f(edit(`"n_batches": 2`, `"n_batches": 2000000000`), "samples in all")
	f(edit(`[16,16]`, `[16,16], "shard_shape": [24,32]`), "shard_shape[0]", "16")
	f(edit(`[16,16]`, `[16,16], "shard_shape": [32,32], "zarr_format": 2`), "format 2")

	if _, err := Load(filepath.Join(t.TempDir(), "absent.json")); !errors.Is(err, nd.ErrNotFound) {
		t.Errorf("absent file: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(empty); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("empty file: %v", err)
	}
}

// Keys that do nothing here are said, never passed over.
func TestNotes(t *testing.T) {
	s, err := Parse([]byte(strings.Replace(minimal, `"n_io_threads": 2`, `"n_io_threads": 2, "bypass_decode": 1`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "bypass_decode") {
		t.Errorf("notes %v", notes)
	}
}
