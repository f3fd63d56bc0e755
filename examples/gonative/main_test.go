package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

func write(t *testing.T, field string) string {
	t.Helper()
	root := t.TempDir()
	err := dataset.Write(context.Background(), root, []dataset.Array{{
		Path: "a", Shape: []int64{40, 80, 96}, Chunk: []int64{16, 32, 32}, Format: 3, DType: nd.U16,
		Field: field, Entropy: 0.5, Seed: 1, Codecs: scenario.Chain{{Name: "zstd"}}, Level: 1,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root + "/a"
}

// The field is 7 everywhere, so every mean is known; the steps must come in
// order, all of them, in both epochs.
func TestMeans(t *testing.T) {
	var out, want strings.Builder
	if err := train(context.Background(), []string{write(t, "constant")}, &out); err != nil {
		t.Fatal(err)
	}
	for epoch := range epochs {
		for step := range crops / batchSize {
			fmt.Fprintf(&want, "epoch %d step %d: %d crops, mean 7.000\n", epoch, step, batchSize)
		}
	}
	if out.String() != want.String() {
		t.Errorf("got\n%swant\n%s", out.String(), want.String())
	}
}

// Another epoch is another order of the same crops.
func TestEpochsDiffer(t *testing.T) {
	var out strings.Builder
	if err := train(context.Background(), []string{write(t, "mask50")}, &out); err != nil {
		t.Fatal(err)
	}
	first, second, ok := strings.Cut(out.String(), "epoch 1")
	if !ok || strings.ReplaceAll(first, "epoch 0 ", "") == strings.ReplaceAll("epoch 1"+second, "epoch 1 ", "") {
		t.Errorf("two epochs in the same order:\n%s", out.String())
	}
}

func TestErrors(t *testing.T) {
	f := func(want string, uris ...string) {
		t.Helper()
		err := train(context.Background(), uris, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", uris, err, want)
		}
	}
	f("name at least one array")
	f("absent", "absent")
	f("group", strings.TrimSuffix(write(t, "constant"), "/a"))
}
