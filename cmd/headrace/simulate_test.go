package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord/sim"
)

// The command runs seeds, and says in JSON what they came to: the same every time.
func TestSimulate(t *testing.T) {
	var first string
	for _, jobs := range []string{"1", "3"} {
		var s struct {
			Seeds                     int
			Violations                []any
			Views, Recovery, Coverage map[string]float64
			Digest                    string
		}
		if err := json.Unmarshal([]byte(must(t, "simulate", "--seeds", "0:6", "--json", "--jobs", jobs)), &s); err != nil {
			t.Fatal(err)
		}
		if s.Seeds != 6 || s.Violations == nil || len(s.Violations) != 0 || s.Views["installed"] < 6 || s.Coverage["over"]+s.Coverage["stopped"] == 0 {
			t.Errorf("%+v", s)
		}
		if first != "" && s.Digest != first {
			t.Errorf("%s jobs: digest %s, with one %s", jobs, s.Digest, first)
		}
		first = s.Digest
	}
	text := must(t, "simulate", "--seeds", "3", "--nodes", "5", "--ranks", "2", "--mode", "async", "--profile", "fast", "--faults", "kill,stop", "--duration", "10s")
	for _, word := range []string{"seeds", "views", "coverage", "messages", "violations  0"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in\n%s", word, text)
		}
	}
}

// A scenario of a file is run again, told and drawn.
func TestSimulateReplay(t *testing.T) {
	sc := sim.Draw(5, &sim.Options{Nodes: 4, Faults: sim.Kinds()})
	dir := t.TempDir()
	file, drawing := filepath.Join(dir, "a.scenario"), filepath.Join(dir, "a.svg")
	if err := os.WriteFile(file, []byte(sc.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text := must(t, "simulate", "--replay", file, "--trace", "--svg", drawing)
	for _, word := range []string{"ranks ", "view 0: 4 members", "log ", "violations  0"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in the trace", word)
		}
	}
	svg, err := os.ReadFile(drawing)
	if err != nil || !strings.HasPrefix(string(svg), "<svg ") {
		t.Errorf("%v, %.40s", err, svg)
	}
}

// What the command line cannot mean is refused before anything runs.
func TestSimulateUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("ranks 1\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"--seeds 5:5": exitUsage, "--seeds x": exitUsage, "--mode half": exitUsage, "--profile slow": exitUsage, "--faults fire": exitUsage,
		"--duration 1ms": exitUsage, "--jobs 0": exitUsage, "--nodes -1": exitUsage, "--trace": exitUsage, "--svg a.svg": exitUsage, "word": exitUsage,
		"--replay /nowhere/at/all": exitError, "--replay " + bad: exitUsage,
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), append([]string{"simulate"}, strings.Fields(line)...), &out, &errs); code != want || errs.Len() == 0 {
			t.Errorf("%s: exit %d, want %d: %s", line, code, want, errs.String())
		}
	}
}

// What cannot be is refused before anything runs.
func TestSimulateBounds(t *testing.T) {
	for _, flags := range [][]string{
		{"--seeds", "0:18446744073709551615"},
		{"--nodes", "0"},
		{"--nodes", "-1"},
		{"--ranks", "0"},
		{"--nodes", "100000"},
		{"--ranks", "5000"},
		{"--jobs", "0"},
		{"--jobs", "100000"},
		{"--duration", "25h"},
		{"--shrink", "-1"},
	} {
		fails(t, exitUsage, append([]string{"simulate"}, flags...), flags[0][2:])
	}
	fails(t, exitUsage, []string{"simulate", "--nodes", "16000", "--ranks", "1000"}, "16000000 ranks")
	fails(t, exitUsage, []string{"simulate", "--replay", "/dev/zero"}, "/dev/zero")
}

// One signal ends a run of one seed too, which takes minutes.
func TestSimulateIsInterrupted(t *testing.T) {
	cmd := program(t, "simulate", "--seeds", "1", "--nodes", "3000", "--trace")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, lines)
	if code := exitCode(cmd.Wait()); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
}
