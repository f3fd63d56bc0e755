package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/companion"
	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/coord/fence"
)

// listening is what engine says of itself once it is ready.
type listening struct {
	Socket   string `json:"socket"`
	Device   string `json:"device"`
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	PID      int    `json:"pid"`
}

func (a *app) engine() *cobra.Command {
	var c companion.Config
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Serve loaders to other processes",
		Long: `Serve loaders, pipelines and reads over a Unix socket to processes of the same user.
A trainer whose HEADRACE_ENGINE names the socket uses this engine and loads no Go
runtime; its batches lie in memory that both share, on the host or on one GPU. One
line on stderr says when the engine is ready. It runs until Ctrl-C or SIGTERM, and
outlives its clients. Beside a trainer on the same GPU start NVIDIA's MPS: without it
the two take turns.`,
		Example: "  headrace engine --socket /run/user/1000/headrace.sock --device cuda:0\n  HEADRACE_ENGINE=/run/user/1000/headrace.sock python train.py",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Socket == "" {
				return usagef("engine: --socket is missing: a path to listen at")
			}
			if err := onlyPositive(cmd, "max-clients", "max-pipelines"); err != nil {
				return err
			}
			c.Release, c.Join = version, join
			e, err := companion.Listen(c)
			if err != nil {
				return err
			}
			if err := a.announce(e.Config()); err != nil {
				return err
			}
			return e.Serve(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Socket, "socket", "", "path of the socket, made with mode 0600")
	f.StringVar(&c.Device, "device", "cpu", "cpu, cuda:N, GPU-<uuid> or MIG-<uuid>")
	f.IntVar(&c.Clients, "max-clients", 0, "clients at one time (default 64)")
	f.IntVar(&c.Pipelines, "max-pipelines", 0, "pipelines and loaders of all clients at one time (default 256)")
	choices(cmd, "device", "cpu", "cuda:0")
	return cmd
}

// join takes a client's loader into the job of its agent.
func join(client *agentapi.Client, a agentapi.Attach, local int) (session.Part, error) {
	f, err := fence.New(client, a, local)
	if err != nil {
		return nil, err // not f: a nil *fence.Fence is no nil Part
	}
	return f, nil
}

// announce says that the engine is ready; JSON is one line, so that a script that
// starts the engine can read it.
func (a *app) announce(c companion.Config) error {
	if _, err := fmt.Fprintf(a.stderr, "headrace: engine ready on %s at %s\n", c.Device, c.Socket); err != nil {
		return err
	}
	if !a.json {
		return nil
	}
	return json.NewEncoder(a.stdout).Encode(listening{c.Socket, c.Device, version, companion.Version, os.Getpid()})
}
