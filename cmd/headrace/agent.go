package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/sealed"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// serving is what agent says of itself once it is ready.
type serving struct {
	Socket  string `json:"socket,omitempty"`
	Address string `json:"address"`
	Job     string `json:"job"`
	PID     int    `json:"pid"`
	Metrics string `json:"metrics,omitempty"` // host:port
}

func (a *app) agent() *cobra.Command {
	var c agent.Config
	var socket, keyFile string
	var shown metricsFlags
	var nodeRank int
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve the ranks of this node in a job whose ranks come and go",
		Long: `Serve the ranks of this node in a job whose ranks come and go: whoever started
them (torchrun, Slurm, mpirun, Kubernetes), they reach the agent by HEADRACE_AGENT.
The agents of a job find each other by gossip and agree, by a majority of at most
seven of them, on who is in it, which steps may be delivered and what is done.

One agent forms the job (--form); the others name one or more of those that are
there (--contact). One that may be started again does both: it forms the job only if
none of the contacts has heard of it. Where all are started alike, --node-rank says
who may form it: number 0. From three agents on, the job outlives any one of them; a witness
is one without ranks. It runs until Ctrl-C or SIGTERM, and leaves the job then.

With --metrics-port it serves a live page of the job, /metrics for Prometheus, /healthz,
/readyz and /debug/view on loopback; --metrics-addr is for another address, and takes a
key of its own (--metrics-key-file), for it goes in the clear.`,
		Example: `  headrace agent --job run7 --form --expect 16 --listen 10.0.0.1:7946 --key-file key --socket /run/user/1000/agent.sock
  headrace agent --job run7 --contact 10.0.0.1:7946 --listen 10.0.0.2:7946 --key-file key --socket /run/user/1000/agent.sock
  headrace agent --job run7 --contact 10.0.0.1:7946 --listen 10.0.0.3:7946 --key-file key --witness
  headrace agent --job run7 --contact 10.0.0.1:7946 --socket agent.sock --metrics-port 9100   # then open http://127.0.0.1:9100/`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if socket == "" && !c.Witness {
				return usagef("agent: --socket is missing: the path that HEADRACE_AGENT names (or --witness: an agent without ranks)")
			}
			if cmd.Flags().Changed("expect") && c.Expect < 1 {
				return usagef("agent: --expect %d: at least 1 rank is expected", c.Expect)
			}
			if c.Name == "" {
				if c.Name, err = os.Hostname(); err != nil {
					return nd.Errorf(nd.ErrIO, "name of this host: %w", err)
				}
			}
			if cmd.Flags().Changed("node-rank") {
				if c.Form && nodeRank != 0 {
					return usagef("agent: --form with --node-rank %d: number 0 forms the job", nodeRank)
				}
				c.Form = nodeRank == 0
			}
			if c.Key, err = readKey(keyFile); err != nil {
				return err
			}
			if c.Observe, err = shown.observing(cmd); err != nil {
				return err
			}
			c.Flags = agentFlags()
			log := a.agentLog()
			defer log.end()
			signal.Ignore(syscall.SIGPIPE) // of stdout and stderr: the job outlives who reads the lines
			c.Release, c.Listener = version, agent.Listener{Event: log.tell}
			return agent.Serve(cmd.Context(), c, socket, func(s agent.Serving) error {
				defer log.begin()
				return a.announceAgent(s, c.Job, socket)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Job, "job", "", "name of the job, the same on all nodes")
	f.StringVar(&socket, "socket", "", "path of the socket for this node's ranks, made with mode 0600")
	f.StringVar(&c.Listen, "listen", "", "host:port for other agents, TCP and UDP (default 127.0.0.1, any port)")
	f.StringVar(&c.Advertise, "advertise", "", "host:port by which others reach this agent (default: what it listens on)")
	f.StringArrayVar(&c.Contacts, "contact", nil, "host:port of another agent; may be repeated")
	f.BoolVar(&c.Form, "form", false, "form the job: one agent of a job does. With --contact it asks them first; --expect is all ranks then, so that nothing is handed out in a second job if none of them can be reached")
	f.IntVar(&nodeRank, "node-rank", 0, "number of this node where all agents are started alike: number 0 is given --form")
	f.IntVar(&c.Expect, "expect", 0, "ranks that must be there before anything is delivered (default 1)")
	f.BoolVar(&c.Witness, "witness", false, "serve no ranks, only decide")
	f.StringVar(&c.Name, "name", "", "of this node, for people (default: the host's)")
	f.StringVar(&c.Rack, "rack", "", "what fails together with this node: voters are spread")
	f.StringVar(&keyFile, "key-file", "", "file with the job's key, 16 bytes or more (default: HEADRACE_KEY_FILE); off loopback there must be one")
	f.StringVar(&c.Profile, "profile", "default", "default: a lost node is out after about 11 s; fast: about 3 s, for small jobs on a calm network")
	choices(cmd, "profile", "default", "fast")
	f.DurationVar(&c.Alone, "alone", 0, "give up after so long without a majority of the agents that decide, or without finding the job, with the reason; negative: never (default 5m)")
	f.IntVar(&shown.port, "metrics-port", 0, "serve metrics and page at this port of loopback; 0 is any free one (default: no)")
	f.StringVar(&shown.addr, "metrics-addr", "", "the same at host:port")
	f.StringVar(&shown.keyFile, "metrics-key-file", "", "file with the key that requests must bring (Authorization: Bearer KEY); off loopback there must be one. /healthz and /readyz ask for none")
	return cmd
}

// agentFlags are the flags of the fields of agent.Config, for its errors.
func agentFlags() map[string]string {
	return map[string]string{
		"Job": "--job", "Name": "--name", "Rack": "--rack", "Listen": "--listen", "Advertise": "--advertise", "Contacts": "--contact", "Form": "--form",
		"Expect": "--expect", "Key": "--key-file", "Profile": "--profile", "Alone": "--alone", "Observe.Addr": "--metrics-addr", "Observe.Key": "--metrics-key-file",
	}
}

// metricsFlags say where an agent shows itself.
type metricsFlags struct {
	port          int
	addr, keyFile string
}

// observing is what the flags mean.
func (m *metricsFlags) observing(cmd *cobra.Command) (o agent.Observing, err error) {
	byPort, byAddr := cmd.Flags().Changed("metrics-port"), cmd.Flags().Changed("metrics-addr")
	switch {
	case byPort && byAddr:
		return o, usagef("agent: --metrics-port and --metrics-addr: one of them")
	case byPort && (m.port < 0 || m.port > 65535):
		return o, usagef("agent: --metrics-port %d: a port is in 0 to 65535", m.port)
	case byPort:
		o.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port))
	case byAddr:
		if o.Addr = m.addr; o.Addr == "" {
			return o, usagef("agent: --metrics-addr is empty: host:port is wanted")
		}
	case m.keyFile != "":
		return o, usagef("agent: --metrics-key-file without --metrics-port or --metrics-addr")
	}
	if m.keyFile == "" {
		return o, nil
	}
	key, err := sealed.ReadKey("--metrics-key-file", m.keyFile)
	o.Key = string(key)
	return o, err
}

// readKey reads the job's key; without a file there is none.
func readKey(file string) ([]byte, error) {
	name := "--key-file"
	if file == "" {
		name, file = "HEADRACE_KEY_FILE", rank.KeyFile(os.LookupEnv)
	}
	if file == "" {
		return nil, nil
	}
	return sealed.ReadKey(name, file)
}

func (a *app) announceAgent(s agent.Serving, job, socket string) error {
	g := s.Agent
	if a.json {
		return json.NewEncoder(a.stdout).Encode(serving{socket, g.Address(), job, os.Getpid(), s.Metrics})
	}
	what := "ranks at " + socket
	if socket == "" {
		what = "a witness"
	}
	_, err := fmt.Fprintf(a.stderr, "headrace: agent of job %s ready at %s, %s\n", job, g.Address(), what)
	if s.Metrics != "" && err == nil {
		_, err = fmt.Fprintf(a.stderr, "headrace: page at http://%s/\n", s.Metrics)
	}
	return err
}
