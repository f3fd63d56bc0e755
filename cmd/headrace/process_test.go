package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	if code := exitCode(cmd.Wait()); code != 1 || stderr.String() != "headrace: interrupted\n" {
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
