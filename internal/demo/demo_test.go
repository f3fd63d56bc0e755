package demo

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/nd"
)

// The sample data show codecs at work: arrays that have a compressor are smaller for it. Not so the noise
// of the gzip array, of which level 3 stores the bytes; examples/gonative has its digests written down.
func TestArraysCompress(t *testing.T) {
	root := t.TempDir()
	if err := Prepare(t.Context(), root, func(string, bool, int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	for _, a := range Arrays() {
		stored := int64(0)
		err := filepath.WalkDir(filepath.Join(root, a.Path), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := os.Stat(name)
			if err == nil {
				stored += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := nd.Product(a.Shape)
		ratio := float64(n*int64(a.DType.Size())) / float64(stored)
		if plain := a.Path == "raw-transposed" || a.Path == "gzip"; plain != (ratio < 1.1) {
			t.Errorf("%s has the ratio %.2f", a.Path, ratio)
		}
	}
}
