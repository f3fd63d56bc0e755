package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/sampler"
)

// audit is the account of a round by the journals of its ranks alone, each one process:
// what they have done, and what they were told of it.
type audit struct {
	n, epochs int64
	done      [][]int    // by epoch and position: how often it was done
	effective [][]string // journals that were told so
	closed    map[int64]map[string]bool
	wrong     []string
}

// mostWrong bounds a report.
const mostWrong = 10

func (a *audit) report(format string, args ...any) {
	if len(a.wrong) < mostWrong {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

// audited reads the journals of a folder, and gives what is wrong with them.
func audited(dir string, n, epochs int64) []string {
	a := &audit{n: n, epochs: epochs, done: make([][]int, epochs), effective: make([][]string, epochs), closed: map[int64]map[string]bool{}}
	for e := range a.done {
		a.done[e], a.effective[e] = make([]int, n), make([]string, n)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil || len(names) == 0 {
		a.report("no journals: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			a.report("%v", err)
		}
		a.read(filepath.Base(name), string(text))
	}
	a.judge()
	return a.wrong
}

func (a *audit) read(name, text string) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue // killed while it wrote
		}
		x, err := parseEntry(line)
		if err != nil || x.epoch < 0 || x.epoch >= a.epochs || x.what != "closed" && (x.a < 0 || x.a >= x.b || x.b > a.n) {
			a.report("%s: %q: %v", name, line, err)
			continue
		}
		a.enter(name, x)
	}
}

func (a *audit) enter(name string, x entry) {
	switch x.what {
	case "closed":
		if a.closed[x.epoch] == nil {
			a.closed[x.epoch] = map[string]bool{}
		}
		a.closed[x.epoch][fmt.Sprint(x.a, " ", x.digest)] = true
	case "done":
		for p := x.a; p < x.b; p++ {
			a.done[x.epoch][p]++
		}
	case "effective":
		for p := x.a; p < x.b; p++ {
			if before := a.effective[x.epoch][p]; before != "" {
				a.report("position %d of epoch %d is effective twice: for %s and %s", p, x.epoch, before, name)
			}
			a.effective[x.epoch][p] = name
		}
	case "void":
	default:
		a.report("%s: %q", name, x.what)
	}
}

// judge checks that each position was done, and that the job closed each epoch with the
// count and the digest of all positions, each once.
func (a *audit) judge() {
	for epoch := range a.epochs {
		var want sampler.Digest
		for p := range a.n {
			if a.done[epoch][p] == 0 {
				a.report("position %d of epoch %d was never done", p, epoch)
			}
			d := weight(epoch, p)
			want.Lanes[0] += d[0]
			want.Lanes[1] += d[1]
		}
		text := fmt.Sprint(a.n, " ", want)
		for got := range a.closed[epoch] {
			if got != text {
				a.report("epoch %d was closed with count and digest %s, want %s", epoch, got, text)
			}
		}
		if len(a.closed[epoch]) == 0 && epoch == a.epochs-1 { // of an earlier one a rank may hear only that the next has begun
			a.report("no rank has heard that epoch %d is closed", epoch)
		}
	}
}

// The account finds what is wrong: a position that nobody has done, one that is effective
// for two, another digest, another count, no end.
func TestAuditFinds(t *testing.T) {
	var want sampler.Digest
	for p := range int64(4) {
		d := weight(0, p)
		want = want.Merge(sampler.Digest{Lanes: d})
	}
	whole := []string{"done 0 0 4\neffective 0 0 2\n", "done 0 2 4\neffective 0 2 4\nvoid 0 0 2\nclosed 0 4 " + want.String() + "\ndone 0 1"}
	for _, c := range []struct {
		name, from, to string
		words          string
	}{
		{name: "whole"},
		{"never done", "done 0 2 4\n", "done 0 2 3\n", ""}, // the other one has done it
		{"hole", "done 0 0 4\n", "done 0 0 1\n", "position 1 of epoch 0 was never done"},
		{"twice", "effective 0 2 4", "effective 0 1 4", "position 1 of epoch 0 is effective twice"},
		{"count", "closed 0 4", "closed 0 3", "count and digest 3"},
		{"digest", "closed 0 4 " + want.String(), "closed 0 4 " + sampler.Digest{}.String(), "count and digest"},
		{"end", "closed 0 4 " + want.String() + "\n", "", "no rank has heard"},
		{"outside", "done 0 2 4\n", "done 0 2 5\n", "done 0 2 5"},
	} {
		dir := t.TempDir()
		for i, text := range whole {
			if c.from != "" {
				text = strings.ReplaceAll(text, c.from, c.to)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".journal")), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := strings.Join(audited(dir, 4, 1), "; ")
		if !strings.Contains(got, c.words) || c.words == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.words)
		}
	}
}
