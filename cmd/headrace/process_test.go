package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// The process itself exits with the codes that run gives.
func TestExitCodes(t *testing.T) {
	for code, args := range [][]string{{"--version"}, {"info", filepath.Join(t.TempDir(), "absent")}, {"frobnicate"}} {
		if got := exitCode(program(t, args...).Run()); got != code {
			t.Errorf("%v: exit %d, want %d", args, got, code)
		}
	}
}

// Ctrl-C ends the work at once with one line, and what was begun can be gone on
// with.
func TestInterrupt(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	file := filepath.Join(files(t, map[string]string{"big.json": `{
		"dataset": {"store_root": "unused", "n_zarrs": 500, "zarr_shape": [64,512,512], "chunk_shape": [32,64,64], "codecs": ["zstd"], "field": "constant"},
		"sampling": {"sample_shape": [1,1,1], "n_batches": 1, "samples_per_batch": 1}, "pipeline": {}}`}), "big.json")
	cmd := program(t, "gen", file, "--out", data)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until it is at work
		if _, err := os.Stat(data); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("gen never began")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 130 || stderr.String() != "headrace: interrupted\n" {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
	for _, name := range tree(t, data) {
		if strings.Contains(name, ".tmp") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// -o - writes the same file to a pipe; a full device is one clear line.
func TestReadToStdout(t *testing.T) {
	dir := array(t, volume(), `"lz4"`)
	piped, err := program(t, "read", dir, "-o", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.npy")
	must(t, "read", dir, "-o", file)
	if same, err := os.ReadFile(file); err != nil || !bytes.Equal(same, piped) {
		t.Errorf("stdout has %d bytes, the file %d (%v)", len(piped), len(same), err)
	}

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	cmd := program(t, "read", dir, "-o", "-")
	cmd.Stdout = full
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(pipe))
	if err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 1 || !strings.Contains(string(text), "no space left") || strings.Count(string(text), "\n") != 1 {
		t.Errorf("full device: exit %d, %q", code, text)
	}
}

// A full disk gives a clear error and no partial file.
func TestFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("a small disk cannot be mounted here: " + err.Error())
	}
	defer syscall.Unmount(small, 0) //nolint:errcheck // the system's own clean-up has it else
	a := volume()
	a.Shape = []int64{64, 64, 64}
	fails(t, 1, []string{"read", array(t, a, `"none"`), "-o", filepath.Join(small, "x.npy")}, "disk is full", "x.npy")
	if left := tree(t, small); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// -o never takes the place of what is no plain file, and a read-only file stays.
func TestReadOutputs(t *testing.T) {
	dir := array(t, volume(), `"lz4"`)
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	must(t, "read", dir, "-o", path("x.npy"))
	want, err := os.ReadFile(path("x.npy"))
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "target", "again": "link"} {
		if err := os.Symlink(to, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "read", dir, "-o", path("again"))
	if got, err := os.ReadFile(path("target")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("behind a link: %d bytes, %v", len(got), err)
	}
	if err := os.Chmod(path("x.npy"), 0o444); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, []string{"read", dir, "-o", path("x.npy")}, "read-only", "x.npy")
	fails(t, 1, []string{"read", dir, "-o", folder}, "is a directory")

	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Skip("no pipes with names here: " + err.Error())
	}
	cmd := program(t, "read", dir, "-o", path("pipe"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path("pipe")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("through a pipe: %d bytes, %v", len(got), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if there, err := os.Lstat(path("pipe")); err != nil || there.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is now %v", there)
	}
}

// gen that is killed leaves nothing that the next run does not finish or remove.
func TestGenAfterKill(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	file := filepath.Join(files(t, map[string]string{"s.json": `{
		"dataset": {"store_root": "unused", "n_zarrs": 3, "zarr_shape": [64,128,128], "chunk_shape": [16,32,32], "codecs": ["zstd"], "field": "lm"},
		"sampling": {"sample_shape": [1,1,1], "n_batches": 1, "samples_per_batch": 1}, "pipeline": {}}`}), "s.json")
	cmd := program(t, "gen", file, "--out", data)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(data, "z000", "scale0", "image")
	for { // until it is at work
		if _, err := os.Stat(filepath.Join(first, "c")); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("gen never began")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()                                  // says that it was killed
	stale := filepath.Join(first, "c", ".0.tmp123") // as file systems without nameless files keep it
	if err := os.WriteFile(stale, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "gen", file, "--out", data)
	reference := filepath.Join(root, "reference")
	must(t, "gen", file, "--out", reference)
	if got, want := tree(t, data), tree(t, reference); !slices.Equal(got, want) {
		t.Errorf("after a kill there are\n%v, want\n%v", got, want)
	}
}
