package agent

import (
	"context"
	"errors"

	"github.com/headrace/headrace/agentapi"
)

// Serve opens an agent and serves the ranks of its node at a socket, until the context
// ends; then the agent leaves the job. Ready is called once both are there.
func Serve(ctx context.Context, cfg Config, socket string, ready func(*Agent) error) (err error) {
	a, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if cfg.Witness {
		if err := ready(a); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	listener, err := agentapi.Listen(socket)
	if err != nil {
		return err
	}
	server := agentapi.Serve(listener, agentapi.Options{RunID: cfg.Job, Coordinator: a})
	defer func() { err = errors.Join(err, server.Close()) }()
	server.Begin(agentapi.Round{})
	if err := ready(a); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
