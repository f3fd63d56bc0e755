package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGenerated fails when cast_gen.go was edited by hand or is older than its
// generator.
func TestGenerated(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../cast_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("cast_gen.go differs from what castgen writes: run go generate ./codec")
	}
}
