package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bars are for terminals: a log file gets none, and on a terminal none is left
// behind when the work ends.
func TestProgress(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // only the test reads it
	if p := (&app{stderr: log}).progress(); p.out != nil {
		t.Error("a file is taken for a terminal")
	}
	(&progress{}).show("read", inBytes, 1, 2)

	var screen bytes.Buffer
	p := &progress{out: &screen}
	p.show("write data", inBytes, 1<<20, 4<<20)
	p.show("measure", inItems, 1, 2)
	p.show("bare decoder", inItems, 0, 0)
	p.end()
	p.end()
	for _, want := range []string{"write data", "measure"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("no %q on the screen: %q", want, screen.String())
		}
	}
	if lines := strings.Count(screen.String(), "\n"); lines > 0 {
		t.Errorf("%d lines are left on the screen", lines)
	}
}
