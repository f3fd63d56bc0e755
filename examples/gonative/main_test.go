package main

import (
	"context"
	"crypto/sha256"
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
	if err := train(context.Background(), "cpu", []string{write(t, "constant")}, &out); err != nil {
		t.Fatal(err)
	}
	for epoch := range epochs {
		for step := range crops / batchSize {
			fmt.Fprintf(&want, "rank 0 epoch %d step %d: %d crops, mean 7.000\n", epoch, step, batchSize)
		}
	}
	means, proof, _ := strings.Cut(out.String(), "epoch 0: ")
	if means != want.String() {
		t.Errorf("got\n%swant\n%s", means, want.String())
	}
	if strings.Count(proof, "256 of 256 crops, digest ") != 2 || strings.Count(proof, "exact: true") != 2 {
		t.Errorf("the proof is %q", proof)
	}
}

// Several devices are as many ranks: together they get what one gets, in half the
// steps, and the digest is the same.
func TestDevices(t *testing.T) {
	uri := write(t, "mask50")
	digests := map[string]bool{}
	for _, devices := range []string{"cpu", "cpu,cpu"} {
		var out strings.Builder
		if err := train(context.Background(), devices, []string{uri}, &out); err != nil {
			t.Fatal(err)
		}
		_, proof, _ := strings.Cut(out.String(), "epoch 0: ")
		digests[proof] = true
		n := strings.Count(devices, "cpu")
		if last := fmt.Sprintf("rank %d epoch 1 step 0: ", n-1); !strings.Contains(out.String(), last) || strings.Contains(out.String(), fmt.Sprintf("rank %d ", n)) {
			t.Errorf("%s: no %q in\n%s", devices, last, out.String())
		}
	}
	if len(digests) != 1 {
		t.Errorf("digests differ: %v", digests)
	}
}

// The committed kernel is compiled from the source beside it.
func TestKernelIsCompiledFromItsSource(t *testing.T) {
	source, err := os.ReadFile("mean.cu")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(meanPTX), "\n")
	if want := fmt.Sprintf("// source: sha256 %x", sha256.Sum256(source)); first != want {
		t.Errorf("mean.ptx begins with %q, want %q: run make kernels", first, want)
	}
}

// Another epoch is another order of the same crops.
func TestEpochsDiffer(t *testing.T) {
	var out strings.Builder
	if err := train(context.Background(), "cpu", []string{write(t, "mask50")}, &out); err != nil {
		t.Fatal(err)
	}
	means, _, _ := strings.Cut(out.String(), "epoch 0: ")
	first, second, ok := strings.Cut(means, "rank 0 epoch 1 ")
	if !ok || strings.ReplaceAll(first, "epoch 0 ", "epoch 1 ") == "rank 0 epoch 1 "+second {
		t.Errorf("two epochs in the same order:\n%s", out.String())
	}
}

func TestErrors(t *testing.T) {
	f := func(want string, uris ...string) {
		t.Helper()
		err := train(context.Background(), "cpu", uris, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", uris, err, want)
		}
	}
	f("name at least one array")
	f("absent", "absent")
	if err := train(context.Background(), "gpu", []string{write(t, "constant")}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), `"gpu"`) {
		t.Errorf("a device that is none: %v", err)
	}
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
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), "usage: gonative [--device LIST] URI") {
			t.Errorf("gonative %s: exit %d, want %d\n%s", arg, got, code, out)
		}
	}
	f("--help", 0)
	f("--unknown", 2)
}
