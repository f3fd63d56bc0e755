package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/rank"
)

// An agent does not wait for who reads its lines: what is too much is counted, and said once
// somebody reads again.
func TestAgentLogDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	l := (&app{stdout: io.Discard, stderr: w}).agentLog()
	l.begin()
	const told = 3 * keptLines
	for range told {
		l.tell(agent.Event{Kind: "view", Text: "1"})
	}
	read := make(chan string)
	go func() {
		var text strings.Builder
		_, _ = io.Copy(&text, r)
		read <- text.String()
	}()
	l.end()
	_ = w.Close()
	text := <-read
	lines := strings.Count(text, " view: 1\n")
	if lines < keptLines || lines > keptLines+1 || !strings.Contains(text, "lines: nobody read them in time") {
		t.Errorf("%d of %d lines were kept: %.200q", lines, told, text)
	}
}

// Nor does it wait at its end.
func TestAgentLogEnds(t *testing.T) {
	r, w := io.Pipe()
	l := (&app{stdout: io.Discard, stderr: w}).agentLog()
	l.tell(agent.Event{Kind: "view", Text: "1"})
	l.end() // nobody reads
	_ = r.Close()
	select {
	case <-l.ended:
	case <-time.After(time.Minute):
		t.Error("it writes for ever to who is gone")
	}
}

// The reader of an agent's lines goes away, as head does: its ranks are served all the same.
func TestAgentOutlivesItsReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := program(t, "agent", "--json", "--job", "run7", "--form", "--profile", "fast", "--socket", socket)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var s serving
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	_ = r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := fence.Dial(ctx, rank.Identity{Agent: socket, RunID: "run7", World: 1, LocalWorld: 1, Nodes: 1}, agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1 << 20, Steps: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	for step := range int64(1000) { // further than the first leases
		if err := f.Lease(ctx, 0, step); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		f.Delivered(0, step)
	}
	f.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at its end: %v", err)
	}
}
