package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// keyFile writes a key.
func keyFile(t *testing.T, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An agent says where it and its page are, doctor reaches it with the key and says what is
// in the way without, and it ends when it is told to.
func TestAgentIsReached(t *testing.T) {
	key := keyFile(t, "0123456789abcdef")
	cmd := program(t, "agent", "--json", "--job", "run7", "--form", "--name", "node1", "--key-file", key, "--socket", filepath.Join(t.TempDir(), "s"), "--metrics-port", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var s serving
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil || s.Metrics == "" {
		t.Fatalf("%v: %s", err, line)
	}
	page := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + s.Metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode, string(body)
	}
	defer http.DefaultClient.CloseIdleConnections()
	if status, body := page("/"); status != 200 || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("the page: %d %.80s", status, body)
	}
	if status, body := page("/healthz"); status != 200 {
		t.Errorf("healthz: %d %s", status, body)
	}
	if status, body := page("/readyz"); status != 503 || !strings.Contains(body, "no rank has attached") {
		t.Errorf("readyz: %d %s", status, body)
	}
	got := must(t, "doctor", "--gossip", s.Address, "--key-file", key, "--python", "")
	for _, want := range []string{"gossip " + s.Address, "TCP ", "UDP ", "the same key", "job run7", "node node1", "version " + version} {
		if !strings.Contains(got, want) {
			t.Errorf("doctor does not say %q:\n%s", want, got)
		}
	}
	other := keyFile(t, "another key, 16+")
	if r := headrace(t, "doctor", "--json", "--gossip", s.Address, "--key-file", other, "--python", ""); r.code != 1 || !strings.Contains(r.stdout, `"status": "fail"`) || !strings.Contains(r.stderr, "another key") {
		t.Errorf("with another key: %+v", r)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at its end: %v", err)
	}
}

// Where an agent must not show itself, it says why before it begins.
func TestAgentsMetricsFlags(t *testing.T) {
	agent := func(more ...string) []string {
		return append([]string{"agent", "--job", "j", "--form", "--socket", filepath.Join(t.TempDir(), "s")}, more...)
	}
	key := keyFile(t, "0123456789abcdef")
	fails(t, exitUsage, agent("--metrics-port", "1", "--metrics-addr", "127.0.0.1:1"), "one of them")
	fails(t, exitUsage, agent("--metrics-port", "65536"), "0 to 65535")
	fails(t, exitUsage, agent("--metrics-addr", ""), "host:port")
	fails(t, exitUsage, agent("--metrics-key-file", key), "without --metrics-port")
	fails(t, exitUsage, agent("--metrics-port", "0", "--metrics-key-file", keyFile(t, "short")), "at least 16")
	fails(t, exitUsage, agent("--metrics-port", "0", "--metrics-key-file", key, "--key-file", key), "in the clear")
	fails(t, exitUsage, agent("--metrics-addr", "0.0.0.0:0"), "loopback", "--metrics-key-file")
	fails(t, exitError, []string{"doctor", "--gossip", "127.0.0.1:1", "--python", ""}, "gossip 127.0.0.1:1", "refused")
}

// Command lines of an agent that make no sense are refused before anything listens.
func TestAgentUsage(t *testing.T) {
	t.Setenv("HEADRACE_KEY_FILE", "")
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--job", "j", "--form"}, "--socket is missing"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--node-rank", "1"}, "number 0 forms the job"},
		{[]string{"--job", "j", "--socket", "s", "--node-rank", "1"}, "neither --form nor --contact"},
		{[]string{"--job", "j", "--witness", "--node-rank", "0", "--contact", "h:1"}, "a witness cannot form the job"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--listen", "0.0.0.0:0"}, "without a key: give one (--key-file)"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--listen", "localhost"}, `--listen "localhost": host:port is wanted`},
		{[]string{"--job", "j", "--socket", "s", "--form", "--expect", "0"}, "--expect 0: at least 1"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--expect", "-1"}, "--expect -1: at least 1"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--expect", "99999999999"}, "--expect 99999999999: ranks are 1 to 1048576"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--contact", "h:1"}, "--form with --contact and --expect 1"},
		{[]string{"--job", "j", "--socket", "s", "--contact", ""}, `--contact "": host:port is wanted`},
		{[]string{"--job", "", "--socket", "s", "--contact", "foo", "--advertise", "x:99999", "--profile", "slow"}, `--advertise "x:99999": host:port is wanted, with a port in 1 to 65535; --contact "foo": host:port is wanted, with a port in 1 to 65535; --job is empty: agents of one job have one name; --profile is "slow": default or fast`},
	} {
		fails(t, 2, append([]string{"agent"}, c.args...), c.words)
	}
}
