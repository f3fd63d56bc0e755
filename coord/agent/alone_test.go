package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
)

// vanish ends what an agent has to say, without a word, as the loss of its host does.
func (h *host) vanish() { h.links.close() }

// An agent that is left without a majority says why nothing comes, to its ranks and in its
// events, and gives up after a while: the ranks end with the reason, and so does Serve.
func TestAgentWithoutAMajority(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	want := agentapi.Attach{Plan: "p", Mode: "async", N: 1 << 20, Steps: 1, Ahead: 16}
	others := []*host{startHost(t, "a", func(c *Config) { c.Form, c.Expect = true, 3 })}
	others = append(others, startHost(t, "b", func(c *Config) { c.Contacts = []string{others[0].Address()} }))
	socket := filepath.Join(t.TempDir(), "s")
	served := make(chan error, 1)
	lines := make(chan string, 1000)
	go func() {
		cfg := Config{Job: "job", Name: "c", Profile: "fast", Key: []byte("0123456789abcdef"), Contacts: []string{others[0].Address()}, Alone: 10 * time.Second}
		cfg.Listener.Event = func(e Event) { lines <- e.Kind + ": " + e.Text }
		served <- Serve(ctx, cfg, socket, func(Serving) error { lines <- "ready"; return nil })
	}()
	<-lines
	var attaching sync.WaitGroup
	fences, sockets := make([]*fence.Fence, 3), []string{socket, others[0].socket, others[1].socket}
	for i, socket := range sockets {
		attaching.Go(func() {
			client, err := agentapi.Dial(ctx, socket, agentapi.Hello{RunID: "job", World: 1, Round: -1})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = client.Close() })
			if fences[i], err = fence.Attach(ctx, client, want, 0); err != nil {
				t.Error(err)
			}
		})
	}
	attaching.Wait()
	if t.Failed() {
		return
	}
	f := fences[0]
	for _, h := range others {
		h.vanish()
	}
	_, x, err := f.Take(ctx, 16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(0, x, digestOf(x)); err != nil { // which nobody can decide
		t.Fatal(err)
	}
	eventually(t, ctx, "the rank hears why", func() bool { return strings.Contains(f.Waiting(), "majority") })
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, _, err := f.Take(short, 16); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a majority of the 3 voters does not answer") {
		t.Errorf("a wait: %v", err)
	}
	if _, _, err := f.Take(ctx, 16); !errors.Is(err, nd.ErrClosed) || !strings.Contains(err.Error(), "for 10s a majority of the 3 voters does not answer") {
		t.Errorf("at the end: %v", err)
	}
	if err := <-served; !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("served: %v", err)
	}
	close(lines)
	said := map[string]bool{}
	for line := range lines {
		said[strings.SplitN(line, ":", 2)[0]] = true
	}
	if !said["waiting"] || !said["gives up"] {
		t.Errorf("events: %v", said)
	}
}

// An agent that finds no job, for its contact is not there, has another key, or is of another job,
// says so while it waits, and gives up after a while, with what to do: these are the commonest
// mistakes. It does so before a rank has attached as well, and as a witness.
func TestAgentThatFindsNoJob(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	for name, c := range map[string]struct{ key, job, contact, says string }{
		"nobody is there": {jobKey, "job", "127.0.0.1:9", "127.0.0.1:9 does not answer (connection refused)"},
		"another key":     {"another key, 16+", "job", a.Address(), a.Address() + ": it has another key, or is no agent of headrace (--key-file)"},
		"another job":     {jobKey, "jobs", a.Address(), a.Address() + ` is of job "job", this agent of "jobs" (Job)`},
	} {
		for _, witness := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", witness ", witness), func(t *testing.T) {
				t.Parallel()
				lines := make(chan string, 1000)
				cfg := Config{
					Job: c.job, Name: "w", Profile: "fast", Key: []byte(c.key), Witness: witness, Contacts: []string{c.contact}, Alone: 2 * time.Second,
					Flags: map[string]string{"Key": "--key-file"}, Listener: Listener{Event: func(e Event) { lines <- e.Kind + ": " + e.Text }},
				}
				err := Serve(ctx, cfg, filepath.Join(t.TempDir(), "s"), func(Serving) error { return nil })
				close(lines)
				if c.job != "job" && witness { // it is asked to be admitted, and hears that it is not
					if !errors.Is(err, nd.ErrConfig) {
						t.Error(err)
					}
					return
				}
				if !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "for 2s no agent of the job has answered yet: "+c.says+"; asked: "+c.contact+"; dropped: ") ||
					!strings.Contains(err.Error(), "`headrace doctor --gossip "+c.contact+"` tells more") {
					t.Error(err)
				}
				said := false
				for line := range lines {
					said = said || line == "waiting: no agent of the job has answered yet: "+c.says
				}
				if !said {
					t.Error("it waits without a word")
				}
			})
		}
	}
}

// An agent whose contact is of the job waits for its first rank as long as that takes.
func TestAgentThatHasFoundTheJob(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	b := startHost(t, "b", func(c *Config) { c.Contacts, c.Alone = []string{a.Address()}, 2*time.Second })
	eventually(t, ctx, "it has asked some times", func() (often bool) {
		_ = b.do(ctx, func() error { often = b.scout.tries > 8; return nil })
		return often
	})
	if err := b.Ready(); err == nil || err.Error() != "closed: no rank has attached: the job is not known yet" {
		t.Errorf("ready: %v", err)
	}
}
