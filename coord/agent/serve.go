package agent

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/metrics"
	"github.com/headrace/headrace/nd"
)

// Serve opens an agent and serves the ranks of its node at a socket, until the context
// ends; then the agent leaves the job. Ready is called once both are there.
func Serve(ctx context.Context, cfg Config, socket string, ready func(*Agent) error) (err error) {
	a, err := Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if !cfg.Witness {
		removeStale(socket)
		listener, err := agentapi.Listen(socket)
		if err != nil {
			return err
		}
		// Ranks are not asked for the job's name: Slurm's say 4711.1, those of torchrun what its
		// --rdzv-id says, those of a pod nothing. The socket is its user's, and plans are compared.
		server := agentapi.Serve(listener, agentapi.Options{Coordinator: a})
		defer func() { err = errors.Join(err, server.Close()) }()
		server.Begin(agentapi.Round{})
	}
	if cfg.Metrics != "" {
		page, err := metrics.New(metrics.Options{Addr: cfg.Metrics, Key: cfg.MetricsKey, OpenProbes: true, Ready: a.Ready})
		if err != nil {
			return nd.Errorf(nd.ErrIO, "agent: %w", err)
		}
		defer func() { err = errors.Join(err, page.Close()) }()
		if err := page.Register(a.table()); err != nil {
			return err
		}
	}
	if err := ready(a); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// removeStale removes the socket of an agent that was killed, at which nobody listens: one
// that is started again in its place has the same path.
func removeStale(socket string) {
	if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unix", socket)
	switch {
	case err == nil:
		_ = conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		_ = os.Remove(socket) // Listen says why it fails
	}
}

// Ready is nil while the agent takes ranks, whether there are any yet or not; else it says
// why there is no part for them.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.mu.closed:
		return nd.Errorf(nd.ErrClosed, "agent: %w", errEnded)
	case a.mu.refused != "":
		return nd.Errorf(nd.ErrConfig, "the job does not take this node: %s", a.mu.refused)
	}
	return nil
}

// table is the agent's metrics.
func (a *Agent) table() *metrics.Table {
	columns := []metrics.Column{
		{Name: "headrace_agent_view", Help: "number of the newest view; absent before there is one"},
		{Name: "headrace_agent_members", Help: "agents in that view"},
		{Name: "headrace_agent_world", Help: "ranks in that view"},
		{Name: "headrace_agent_deciding", Help: "agents by whose majority things are decided, as one of them knows; 0 at the others"},
		{Name: "headrace_agent_halted", Help: "1 while a rank is lost and no redo has said where to go on"},
		{Name: "headrace_agent_over", Help: "1 once all epochs are closed"},
	}
	return metrics.NewTable([]string{"job"}, columns, func() []metrics.Row {
		a.mu.Lock()
		s, decide := a.mu.state, a.mu.decide
		a.mu.Unlock()
		if s.View == nil {
			return nil
		}
		return []metrics.Row{{Labels: []string{a.config.Job}, Values: []float64{
			float64(s.View.Number), float64(len(s.View.Members)), float64(s.View.World()), float64(decide), number(s.Halted), number(s.Over),
		}}}
	})
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
