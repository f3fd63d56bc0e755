package agent

import (
	"context"
	"errors"

	"github.com/headrace/headrace/agentapi"
)

// Serving is what Serve has opened.
type Serving struct {
	Agent   *Agent
	Metrics string // host:port of metrics and page; empty: there are none
}

// Serve opens an agent and serves the ranks of its node at a socket, until the context
// ends; then the agent leaves the job. Ready is called once all is there.
func Serve(ctx context.Context, cfg Config, socket string, ready func(Serving) error) (err error) {
	a, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s := Serving{Agent: a}
	observe := cfg.Observe
	if !cfg.Witness {
		listener, err := agentapi.Listen(socket)
		if err != nil {
			return err
		}
		server := agentapi.Serve(listener, agentapi.Options{RunID: cfg.Job, Coordinator: a})
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
	<-ctx.Done()
	return nil
}
