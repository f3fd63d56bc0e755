package main

import (
	"bytes"
	"strings"
	"testing"
)

// The table names what was measured, what was predicted and from which files, and ends
// with the advice; the JSON has the same.
func TestProbe(t *testing.T) {
	a := volume()
	a.Shard = []int64{8, 16, 32}
	dir := array(t, a, `"zstd"`)
	text := must(t, "probe", dir, "--codecs", "shuffle+zstd:1,blosc-lz4,gzip", "--device", "cpu", "--crop", "8,16,16")
	for _, w := range []string{
		"13 x 21 x 34 of uint16", "4 x 8 x 16 (1 KiB decoded) in shards of 8 x 16 x 32", "zstd level=1", "36 of 36 chunks looked at", "sequences a KiB", "Huffman tables",
		"measured here: ", "predicted*: 4096 chunks in a call", "crop    8 x 16 x 16: ", "on the host", ", binds",
		"as stored", "shuffle+zstd:1", "blosc-lz4", "gzip", "advice: ", "* predicted from rates of one GPU, NVIDIA H200; all else is measured here:\n  bench/results/gpu-",
		"4096 chunks in a call (the array has 36): ",
	} {
		if !strings.Contains(text, w) {
			t.Errorf("probe does not say %q:\n%s", w, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasSuffix(line, " \n") {
			t.Errorf("blanks at the end of %q", line)
		}
	}
	if names := strings.Count(text, "bench/results/kernels-"); names != 1 {
		t.Errorf("a file of rates is named %d times", names)
	}
	r := parsed(t, must(t, "probe", dir, "--codecs", "", "--samples", "5", "--seed", "3", "--device", "cpu", "--json"))
	hasKeys(t, r, "uri shape dtype chunks shards codecs method sample sizes structure storage host gpu crop target stages bound f32_gb_per_s candidates advice notes")
	if sample := r["sample"].(map[string]any); sample["read"] != 5.0 || sample["seed"] != 3.0 {
		t.Errorf("sample %v", sample)
	}
	if rows := r["candidates"].([]any); len(rows) != 1 || r["advice"].(map[string]any)["action"] != "keep" {
		t.Errorf("with no codec to try: %v, %v", rows, r["advice"])
	}
}

// Chunks that are all missing are told, and that is no failure. An image is probed level
// by level; a raw array has nothing to decode.
func TestProbeOddArrays(t *testing.T) {
	empty := files(t, map[string]string{"zarr.json": v3("[4, 6]", "uint8", "[2, 2]", 0)})
	if text := must(t, "probe", empty, "--device", "cpu"); !strings.Contains(text, "6 of 6 chunks looked at (seed 0): 6 missing") || !strings.Contains(text, "keep: no chunk is stored") || strings.Contains(text, "predicted") {
		t.Errorf("no chunk is stored:\n%s", text)
	}
	root := image(t)
	for name, level := range map[string]string{"full": "", "half": "1"} {
		text := must(t, "probe", root, "--level", level, "--device", "cpu")
		if want := map[string]string{"full": "4 x 4 of", "half": "2 x 2 of"}[name]; !strings.Contains(text, want) {
			t.Errorf("level %q is not %s:\n%s", level, want, text)
		}
	}
	raw := must(t, "probe", array(t, volume(), `"none"`), "--device", "cpu", "--codecs", "lz4")
	if !strings.Contains(raw, "codecs  none") || strings.Contains(raw, "\nhost ") {
		t.Errorf("raw chunks:\n%s", raw)
	}
}

// Broken chunks are told; if all are, that is a failure.
func TestProbeBroken(t *testing.T) {
	meta := v3("[4, 4]", "uint8", "[2, 2]", 0)
	some := files(t, map[string]string{"zarr.json": meta, "c/0/0": "1234", "c/0/1": "12"})
	if text := must(t, "probe", some, "--device", "cpu"); !strings.Contains(text, "2 missing, 1 broken, 1 read") || !strings.Contains(text, "broken  the first: ") || !strings.Contains(text, "file c/0/1") || !strings.Contains(text, "ratio   1.00: 1.00 to 1.00") {
		t.Errorf("one chunk is broken:\n%s", text)
	}
	all := files(t, map[string]string{"zarr.json": meta, "c/0/1": "12"})
	fails(t, 1, []string{"probe", all, "--device", "cpu"}, "corrupt data", "none of the 1 chunks", "file c/0/1")
	var out, errs bytes.Buffer
	if run(t.Context(), []string{"probe", all, "--device", "cpu"}, &out, &errs); strings.Count(errs.String(), "array ") != 1 {
		t.Errorf("the array is not named once: %s", errs.String())
	}
	fails(t, 1, []string{"probe", all, "--device", "cpu", "--json"}, "corrupt data")
}

func TestProbeErrors(t *testing.T) {
	dir := array(t, volume(), `"zstd"`)
	for args, word := range map[string]string{
		"probe": "URI is missing", "probe a --samples 0": "--samples is 0", "probe a --samples 9999999": "at most", "probe a --gpu-time 0s": "must be positive", "probe a --crop 4,x": `"x" is not an extent`, "probe a --crop 4,0": "not an extent",
	} {
		fails(t, 2, strings.Fields(args), word, "--help`")
	}
	fails(t, 2, []string{"probe", dir, "--codecs", "zstd:1,brotli"}, "brotli", "blosc-lz4")
	fails(t, 2, []string{"probe", dir, "--codecs", "zstd:99"}, "level 99, of -131072 to 22")
	fails(t, 2, []string{"probe", dir, "--codecs", "gzip:10"}, "level 10, of 0 to 9")
	fails(t, 2, []string{"probe", dir, "--device", "gpu"}, "cuda:N")
	fails(t, 1, []string{"probe", dir, "--device", "cuda:99"}, "device error", "(see `headrace doctor`)") // no driver, or no such GPU
	fails(t, 2, []string{"probe", dir, "--device", "cpu", "--crop", "99,1,1"}, "does not fit")
	fails(t, 2, []string{"probe", dir, "--device", "cpu", "--crop", "1,1"}, "2 axes")
	fails(t, 1, []string{"probe", dir + "/absent"}, "not found", "absent")
}

func TestProbeHelpAndCompletion(t *testing.T) {
	help := must(t, "probe", "--help")
	for _, w := range []string{"Examples:", "headrace probe image.zarr --level 1", "--codecs", "shuffle+", "--gpu-time duration", "exit code 1"} {
		if !strings.Contains(help, w) {
			t.Errorf("the help does not say %q", w)
		}
	}
	for line, want := range map[string]string{"probe a --device ": "cpu\ncuda:0\n", "probe a --codecs ": "none\nlz4\nzstd\n"} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...), &out, &errs)
		if code != exitOK || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q completes to %q", line, out.String())
		}
	}
}
