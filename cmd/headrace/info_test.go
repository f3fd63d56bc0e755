package main

import (
	"fmt"
	"strings"
	"testing"
)

const infoKeys = "uri kind zarr_format supported reason shape dtype chunks shards codecs fill attrs dimension_names order notes"

// The JSON of an array has all the promised names, with the values of its
// metadata.
func TestInfoArray(t *testing.T) {
	a := volume()
	a.Shard = []int64{8, 16, 32}
	dir := array(t, a, `["transpose","blosc-zstd","crc32c"]`)
	r := parsed(t, must(t, "info", dir, "--json"))
	hasKeys(t, r, infoKeys)
	want := map[string]string{
		"kind": "array", "zarr_format": "3", "supported": "true", "reason": "", "shape": "[13 21 34]", "dtype": "uint16",
		"chunks": "[4 8 16]", "shards": "[8 16 32]", "fill": "0", "order": "[2 1 0]", "chunk_bytes": "1024",
	}
	for key, value := range want {
		if got := fmt.Sprint(r[key]); got != value {
			t.Errorf("%s is %s, want %s", key, got, value)
		}
	}
	var names []string
	for _, c := range r["codecs"].([]any) {
		names = append(names, c.(map[string]any)["name"].(string))
	}
	if got := strings.Join(names, " "); got != "bytes blosc crc32c sharding_indexed" {
		t.Errorf("codecs %s", got)
	}
	text := must(t, "info", dir)
	for _, w := range []string{"13 x 21 x 34", "uint16", "8 x 16 x 32", `blosc {"blocksize":0`, "reads   yes", "axes [2 1 0]", "headrace"} {
		if !strings.Contains(text, w) {
			t.Errorf("info does not say %q:\n%s", w, text)
		}
	}
}

// For an array that is not read, info still shows what is known and says which
// part is the reason. That is an answer, not a failure.
func TestInfoUnsupported(t *testing.T) {
	f := func(document, file, dtype, reason string) {
		t.Helper()
		root := files(t, map[string]string{file: document})
		r := parsed(t, must(t, "info", root, "--json"))
		hasKeys(t, r, infoKeys)
		if r["supported"] != false || !strings.Contains(r["reason"].(string), reason) || fmt.Sprint(r["dtype"]) != dtype {
			t.Errorf("info says supported %v, %q, dtype %v; want the reason %q", r["supported"], r["reason"], r["dtype"], reason)
		}
		if text := must(t, "info", root); !strings.Contains(text, "reads   no: ") && !strings.Contains(text, "reads  no: ") {
			t.Errorf("info prints\n%s", text)
		}
	}
	codecs := func(name string) string {
		return strings.Replace(v3("[4]", "uint8", "[2]", 0), `"codecs":[`, `"codecs":[{"name":"bytes"},{"name":"`+name+`"},`, 1)
	}
	f(strings.Replace(codecs("zfp2"), `,{"configuration":{"endian":"little"},"name":"bytes"}`, "", 1), "zarr.json", "uint8", "zfp2")
	f(v3("[4]", "string", "[2]", ""), "zarr.json", "string", "string")
	f(strings.Replace(v3("[4]", "uint8", "[2]", 0), `"regular"`, `"rectilinear"`, 1), "zarr.json", "uint8", "rectilinear")
	f(`{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<U8","compressor":null,"fill_value":"","order":"C","filters":null}`, ".zarray", "<U8", "<U8")
	f(`{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<u2","compressor":{"id":"jpeg"},"fill_value":0,"order":"C","filters":null}`, ".zarray", "<u2", "jpeg")
	f(strings.Replace(v3("[4]", "uint8", "[2]", 0), `"shape":[4]`, `"shape":[-4]`, 1), "zarr.json", "uint8", "shape")
	f(`{"zarr_format":3,"node_type":"array"}`, "zarr.json", "<nil>", "lacks shape")
}

// A group lists its nodes and its images; a level is shown by itself.
func TestInfoGroup(t *testing.T) {
	root := image(t)
	r := parsed(t, must(t, "info", root, "--json"))
	hasKeys(t, r, infoKeys+" multiscales children")
	images := r["multiscales"].([]any)
	levels := images[0].(map[string]any)["levels"].([]any)
	second := levels[1].(map[string]any)
	if r["kind"] != "group" || len(levels) != 2 || second["path"] != "half" || fmt.Sprint(second["shape"], second["scale"]) != "[2 2] [2 2]" {
		t.Errorf("info says %v", r)
	}
	if children := r["children"].([]any); len(children) != 2 || children[0].(map[string]any)["path"] != "full" {
		t.Errorf("children %v", children)
	}
	text := must(t, "info", root)
	for _, w := range []string{"cells (y x)", "level 1", "half  2 x 2 |u1"} {
		if !strings.Contains(text, w) {
			t.Errorf("info does not say %q:\n%s", w, text)
		}
	}
	if one := parsed(t, must(t, "info", root, "--level", "1", "--json")); fmt.Sprint(one["shape"]) != "[2 2]" || one["kind"] != "array" || one["supported"] != true {
		t.Errorf("level 1: %v", one)
	}
	fails(t, 1, []string{"info", root, "--level", "7"}, "not found", "7")
}

// A folder of arrays need not be a group: info lists them, with the reason for
// one that is not read, and does not call the folder readable.
func TestInfoFolder(t *testing.T) {
	root := files(t, map[string]string{
		"good/zarr.json": v3("[4, 6]", "uint8", "[2, 2]", 0),
		"odd/.zarray":    `{"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<u2","compressor":{"id":"jpeg"},"fill_value":0,"order":"C","filters":null}`,
		"notes/text":     "no array",
	})
	r := parsed(t, must(t, "info", root, "--json"))
	hasKeys(t, r, infoKeys+" children")
	if r["kind"] != "folder" || r["supported"] != false || len(r["children"].([]any)) != 2 {
		t.Errorf("info says %v", r)
	}
	text := must(t, "info", root)
	for _, w := range []string{"good  4 x 6 uint8", "odd  4 <u2  not read", "jpeg", "folder"} {
		if !strings.Contains(text, w) {
			t.Errorf("info does not say %q:\n%s", w, text)
		}
	}
	fails(t, 1, []string{"info", root + "/notes"}, "not found", "zarr.json")
}

func TestInfoNothing(t *testing.T) {
	empty := t.TempDir()
	fails(t, 1, []string{"info", empty}, "not found", "zarr.json", ".zarray", ".zgroup")
	fails(t, 1, []string{"info", empty + "/absent"}, "not found", "absent")
	fails(t, 1, []string{"info", "https://example.org/a.zarr"}, "https comes later")
}
