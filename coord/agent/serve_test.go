package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
)

// asked is what an agent's page answers.
func asked(t *testing.T, address, path, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// freeAddress is a port that nobody has now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only named a port
	return l.Addr().String()
}

// An agent that takes the place of a killed one serves at the socket that was left behind;
// its page tells a kubelet without a key that it takes ranks, and others the view with one.
func TestServeAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	socket := filepath.Join(t.TempDir(), "s")
	killed, err := agentapi.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	page := freeAddress(t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Config{Job: "job", Form: true, Profile: "fast", Metrics: page, MetricsKey: "token"}, socket, func(*Agent) error {
			close(ready)
			return nil
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if status, body := asked(t, page, "/readyz", ""); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}
	if status, _ := asked(t, page, "/metrics", ""); status != http.StatusUnauthorized {
		t.Errorf("metrics without the token: %d", status)
	}
	if _, body := asked(t, page, "/metrics", "token"); strings.Contains(body, "headrace_agent_view") {
		t.Errorf("there is a view before there is a rank:\n%s", body)
	}
	// The rank names its job as Slurm does, and not as the agent does.
	client, err := agentapi.Dial(ctx, socket, agentapi.Hello{RunID: "4711.1", World: 1, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	part, err := fence.Attach(ctx, client, agentapi.Attach{Plan: "p", Mode: "async", N: 10, Steps: 1, Epochs: 1, Ahead: 4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := asked(t, page, "/metrics", "token"); !strings.Contains(body, `headrace_agent_world{job="job"} 1`) {
		t.Errorf("with a rank:\n%s", body)
	}
	part.Close()
	_ = client.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A socket at which somebody listens is his.
func TestServeLeavesTheSocketOfAnother(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	other, err := agentapi.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // nothing was sent
	err = Serve(t.Context(), Config{Job: "job", Form: true}, socket, func(*Agent) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	if conn, err := net.Dial("unix", socket); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}
