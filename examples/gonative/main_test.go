package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

// asProgram makes the test binary be gonative.
const asProgram = "GONATIVE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

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

// --help is answered with the usage and no error; an unknown flag is no array.
func TestHelp(t *testing.T) {
	f := func(arg string, code int) {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, arg)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, _ := cmd.CombinedOutput() // its failure is the exit code
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), "usage: gonative URI") {
			t.Errorf("gonative %s: exit %d, want %d\n%s", arg, got, code, out)
		}
	}
	f("--help", 0)
	f("--unknown", 2)
}
