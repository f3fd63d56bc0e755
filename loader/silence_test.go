package loader

import (
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// An agent that says hello and then nothing, as one that was stopped by a signal, is
// waited for within a bound; the error says for whom, and what to do.
func TestAgentThatFallsSilent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent")
	l, err := agentapi.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		hello := `{"type":"hello","protocol":"` + agentapi.Protocol + `","version":1,"offers":["` + agentapi.OfferPlanCheck + `"]}`
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...))
		_, err = io.Copy(io.Discard, conn)
		served <- err
	}()
	client, err := agentapi.Dial(t.Context(), path, agentapi.Hello{World: 2, Round: -1})
	if err != nil {
		t.Fatal(err)
	}
	plan := agentapi.Plan{World: 2, PlanHash: strings.Repeat("0", 32), Fingerprint: "f", N: 4, Global: 2, Tail: "short"}
	err = hinted(compare(t.Context(), client, plan, 20*time.Millisecond))
	if !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "not compared the ranks' plans within 20ms") || !strings.Contains(err.Error(), "NoCheck") {
		t.Errorf("the error is %v", err)
	}
	if err := errors.Join(client.Close(), <-served, l.Close()); err != nil {
		t.Error(err)
	}
}
