package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/internal/sealed"
)

// What does not belong here is dropped or refused with its reason, and the job goes on:
// bytes that are no message, another version's agent, a second process of one rank, a rank of
// another round.
func TestStrays(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Epochs: 1, Ahead: 8}
	key := []byte("0123456789abcdef")
	lines := make(chan string, 1000)
	a := startHost(t, "a", func(c *Config) {
		c.Form = true
		c.Listener.Event = func(e Event) { lines <- e.Kind + ": " + e.Text }
	})
	w, err := a.attach(ctx, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()

	raw, err := dialStream(t.Context(), nil, a.Address(), messageStream, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := sealed.Client(raw, key)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing more is sent
	good := coord.AppendMessage(nil, &coord.Message{From: coord.Source{ID: coord.ID{1: 1}, Address: "127.0.0.1:9"}, Body: &coord.Follow{}})
	other := append([]byte{coord.Version + 1}, good[1:]...)
	for name, stray := range map[string]struct {
		message []byte
		says    string
	}{
		"nothing":         {[]byte{0}, "message of 1 bytes"},
		"another version": {other, "install the same headrace everywhere"},
		"an unknown kind": {append([]byte{coord.Version, 99}, good[2:]...), "message of kind 99"},
		"half a message":  {good[:len(good)-1], "cut off"},
		"too much":        {append(slices.Clip(good), 7), "left over"},
	} {
		if err := conn.Send(stray.message, time.Second); err != nil {
			t.Fatal(err)
		}
		for {
			line := ""
			select {
			case line = <-lines:
			case <-ctx.Done():
				t.Fatalf("%s: nothing is said", name)
			}
			if kind, text, _ := strings.Cut(line, ": "); kind == "dropped" {
				if !strings.Contains(text, stray.says) {
					t.Errorf("%s: %s", name, text)
				}
				break
			}
		}
	}

	if _, err := a.attach(ctx, 0, want); err == nil || !strings.Contains(err.Error(), "attached already") {
		t.Errorf("a second process of one rank: %v", err)
	}
	if err := w.work(ctx, &ledger{done: map[int64]int{}}, 0); err != nil {
		t.Errorf("the job does not go on: %v", err)
	}
}
