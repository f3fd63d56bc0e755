package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestBytesFlag(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1073741824": 1 << 30, "1GiB": 1 << 30, "8G": 8 << 30, "3K": 3072, "5B": 5, "8388607TiB": 8388607 << 40} {
		var n int64
		if err := (bytesFlag{&n}).Set(text); err != nil || n != want {
			t.Errorf("%s is %d (%v), want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "G", "-1", "1.5G", "1 GiB", "1GB", "1iB", "1GiBK", "8388608TiB", "0x10"} {
		n := int64(7)
		if err := (bytesFlag{&n}).Set(text); err == nil || n != 7 {
			t.Errorf("%q is %d (%v)", text, n, err)
		}
	}
}

// Each flag that takes one of a few words completes to them, and a scenario to a file.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"read a --pad ":           "error fill edge reflect :4",
		"read a --device ":        "cpu cuda:0 :4",
		"read a --dtype ":         "f32 bf16 f16 f64 u8 u16 u32 u64 i8 i16 i32 i64 bool :4",
		"bench s.json --reuse ":   "none batch window cache :4",
		"bench s.json --reader ":  "ring direct uring mapped :4",
		"bench s.json --decoder ": "nvcomp :4",
		"bench s.json --device ":  "cpu cuda:0 :4",
		"engine --device ":        "cpu cuda:0 :4",
		"order show --tail ":      "short drop mask :4",
		"order verify --tail ":    "short drop mask :4",
		"order where --tail ":     "short drop mask :4",
		"bench ":                  "json :8",
		"gen ":                    "json :8",
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"__complete"}, strings.Split(line, " ")...), &out, &errs)
		if got := strings.Join(strings.Fields(out.String()), " "); code != exitOK || got != want {
			t.Errorf("%q completes to %q, want %q", line, got, want)
		}
	}
}
