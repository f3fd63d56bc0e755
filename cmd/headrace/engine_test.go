package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// engine says one line when it listens, nothing more, and leaves nothing behind.
func TestEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	cmd := program(t, "engine", "--socket", socket, "--json")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	if line, err := lines.ReadString('\n'); line != "headrace: engine ready on cpu at "+socket+"\n" {
		t.Errorf("%q, %v", line, err)
	}
	var said listening
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil || said != (listening{socket, "cpu", version, 1, cmd.Process.Pid}) {
		t.Errorf("%s: %+v, %v", line, said, err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Error(err)
	} else if err := conn.Close(); err != nil { // a stranger who says nothing
		t.Error(err)
	}
	fails(t, exitUsage, []string{"engine", "--socket", socket}, "somebody listens at "+socket)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || len(rest) > 0 {
		t.Errorf("on stderr: %q, %v", rest, err)
	}
	if code := exitCode(cmd.Wait()); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket: %v", err)
	}
}

func TestEngineRefuses(t *testing.T) {
	dir := t.TempDir()
	fails(t, exitUsage, []string{"engine"}, "--socket is missing")
	fails(t, exitUsage, []string{"engine", "--socket", dir + "/s", "--max-clients", "0"}, "at least 1")
	fails(t, exitUsage, []string{"engine", "--socket", dir}, "is no socket")
	fails(t, exitUsage, []string{"engine", "--socket", dir + "/" + strings.Repeat("x", 120)}, "at most 107")
	fails(t, exitError, []string{"engine", "--socket", dir + "/s", "--device", "cuda:99"}, "device error")
	fails(t, exitError, []string{"engine", "--socket", dir + "/none/s"}, "folder of the socket")
}
