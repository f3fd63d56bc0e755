package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGenerated fails when a generated file was edited by hand or is older than
// its generator.
func TestGenerated(t *testing.T) {
	for _, f := range files {
		want, err := f.generate()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile("../../" + f.name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what castgen writes: run go generate ./codec", f.name)
		}
	}
}
