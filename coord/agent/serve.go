package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/headrace/headrace/agentapi"
)

// Serving is what Serve has opened.
type Serving struct {
	Agent   *Agent
	Metrics string // host:port of metrics and page; empty: there are none
}

// Serve opens an agent and serves the ranks of its node at a socket, until the context
// ends; then the agent leaves the job. Ready is called once all is there. It ends with the
// reason too where the job does not take the agent, or it has given up: see Config.Alone.
func Serve(ctx context.Context, cfg Config, socket string, ready func(Serving) error) (err error) {
	a, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s := Serving{Agent: a}
	observe := cfg.Observe
	if !cfg.Witness {
		if agentapi.CheckStale(socket) == nil { // of an agent that was killed: who is started in its place has the same path
			_ = os.Remove(socket) // Listen says why it fails
		}
		listener, err := agentapi.Listen(socket)
		if err != nil {
			return err
		}
		// Ranks are not asked for the job's name: Slurm's say 4711.1, those of torchrun what its
		// --rdzv-id says, those of a pod nothing. The socket is its user's, and plans are compared.
		server := agentapi.Serve(listener, agentapi.Options{Coordinator: a})
		defer func() { err = errors.Join(err, server.Close()) }()
		server.Begin(agentapi.Round{})
		observe.Stats = server.Stats
	}
	if observe.Addr != "" {
		shown, err := a.Observe(observe)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, shown.Close()) }()
		s.Metrics = shown.Addr()
	}
	if err := ready(s); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-a.failed:
	}
	select { // the ranks hear why first
	case <-ctx.Done():
	case <-time.After(lastWords):
	}
	return a.Ready()
}

// lastWords is how long an agent that has failed still answers its ranks.
const lastWords = time.Second
