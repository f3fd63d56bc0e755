package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// The build for races finds what it is for. A barrier that orders nothing is one that is missing; the
// kernels wait at it all the same, so that what they decode stays right.
func TestRacesAreFound(t *testing.T) {
	data := zstdKinds(5000)["words"]
	if data == nil {
		t.Fatal("no such data")
	}
	sources := []zstdSource{{name: "words", src: encodedBy(t, data, 3, false), size: len(data)}}
	for _, c := range []struct{ what, finds, in string }{
		{"", "", ""},
		{"warps' barriers", "race:", "zstd_tables.h"},
		{"blocks' barriers", "race:", "zstd_execute.h"},
		{"fetches", "it is on its way:", "zstd_sequences.h"},
	} {
		t.Run("without "+c.what, func(t *testing.T) {
			m, end := startAs(t, exec.Command(build(t, forRaces), c.what), forRaces)
			blocks, arena := zstdRoom(sources)
			got := m.decodeZstd(t, sources, blocks, arena)[0]
			if !bytes.Equal(got.dst, data) {
				t.Error("other bytes")
			}
			err := end()
			if c.what == "" {
				if err != nil {
					t.Errorf("%v\n%s", err, m.stderr)
				}
				return
			}
			exit := new(exec.ExitError)
			if !errors.As(err, &exit) || exit.ExitCode() != 66 {
				t.Fatalf("%v, want exit 66\n%s", err, m.stderr)
			}
			for _, part := range []string{"== " + c.finds, c.in} {
				if !strings.Contains(m.stderr.String(), part) {
					t.Errorf("no %q in\n%s", part, m.stderr)
				}
			}
		})
	}
}

// What the work memory of zstd holds before decides nothing.
func TestZstdWorkMemory(t *testing.T) {
	var sources []zstdSource
	for _, n := range []int{1, 1500, 5000, 131_073} {
		for kind, data := range zstdKinds(n) {
			if n > 100_000 && kind != "words" {
				continue
			}
			src := encodedBy(t, data, 3, true)
			sources = append(sources, zstdSource{name: fmt.Sprintf("%s, %d", kind, n), src: src, size: n})
			broken := bytes.Clone(src)
			broken[len(broken)/2] ^= 0x55
			sources = append(sources, zstdSource{name: fmt.Sprintf("%s, %d, damaged", kind, n), src: broken, size: n})
		}
	}
	blocks, arena := zstdRoom(sources)
	for _, kind := range []hostBuild{oneThread, asFibers} {
		t.Run(kind.name, func(t *testing.T) {
			m := start(t, kind)
			m.fill = 0
			want := m.decodeZstd(t, sources, blocks, arena)
			for _, m.fill = range []byte{0xff, 0x80} {
				for i, got := range m.decodeZstd(t, sources, blocks, arena) {
					if got.status != want[i].status || !bytes.Equal(got.dst, want[i].dst) {
						t.Errorf("%s: status %d, want %d, or other bytes, if the memory holds %#x", sources[i].name, got.status, want[i].status, m.fill)
					}
				}
			}
		})
	}
}
