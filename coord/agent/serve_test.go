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

// An agent that takes the place of a killed one serves at the socket that was left behind;
// its page tells a kubelet without a key that it lives, and that it is in the job once there
// is a rank; the numbers want the key.
func TestServeAgain(t *testing.T) {
	t.Parallel()
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
	var page string
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Config{Job: "job", Form: true, Profile: "fast", Observe: Observing{Addr: "127.0.0.1:0", Key: "token"}}, socket, func(s Serving) error {
			page = s.Metrics
			close(ready)
			return nil
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if status, body := asked(t, page, "/healthz", ""); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
	if status, body := asked(t, page, "/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "no rank has attached") {
		t.Errorf("ready before a rank: %d %s", status, body)
	}
	if status, _ := asked(t, page, "/metrics", ""); status != http.StatusUnauthorized {
		t.Errorf("metrics without the token: %d", status)
	}
	if _, body := asked(t, page, "/metrics", "token"); strings.Contains(body, "headrace_job_view ") {
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
	if _, body := asked(t, page, "/metrics", "token"); !strings.Contains(body, "headrace_job_ranks 1\n") {
		t.Errorf("with a rank:\n%s", body)
	}
	if status, body := asked(t, page, "/readyz", ""); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
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
	err = Serve(t.Context(), Config{Job: "job", Form: true}, socket, func(Serving) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	if conn, err := net.Dial("unix", socket); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}
