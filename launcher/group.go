package launcher

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

// endless is longer than any job, and short enough to be added to a time.
const endless = 10 * 365 * 24 * time.Hour

const (
	standardPort   = 29500 // torch's master port
	rendezvousPort = 29400 // torchrun's default for c10d
)

// liveClose is how long the end of a live job's rendezvous is told: nobody needs it.
const liveClose = 2 * time.Second

// alone reports whether the job is this node's alone and needs no network.
func (s *Spec) alone() bool { return s.MaxNodes == 1 || s.Standalone || len(s.LiveContacts) > 0 }

// enter finds the job's group. It blocks until the node is known to the job.
func (s *Spec) enter(ctx context.Context, host string, agent int, notice func(string)) (rendezvous.Group, error) {
	c := rendezvous.Config{
		RunID: s.RunID, MaxRestarts: s.MaxRestarts, Node: s.node(host), NodeRank: s.NodeRank,
		Static: s.Backend == "static", Min: s.MinNodes, Max: s.MaxNodes, ExitTimeout: s.ExitTimeout, Notice: notice, Live: s.Live,
	}
	c.Node.Agent = agent
	if s.ExitTimeout == 0 {
		c.ExitTimeout = endless
	}
	if s.Live {
		c.CloseTimeout = liveClose
	}
	if s.alone() {
		c.Endpoint = s.ownEndpoint()
		if err := resolve(ctx, c.Endpoint); err != nil {
			return nil, err
		}
		return rendezvous.Single(c)
	}
	if err := s.configure(&c); err != nil {
		return nil, err
	}
	notice(fmt.Sprintf("a job of %s nodes: they meet at %s", s.nodes(), c.Endpoint)) // else a node that waits says nothing
	return rendezvous.Join(ctx, c)
}

// nodes is the number of nodes as --nnodes has it.
func (s *Spec) nodes() string {
	if s.MinNodes == s.MaxNodes {
		return strconv.Itoa(s.MaxNodes)
	}
	return fmt.Sprintf("%d:%d", s.MinNodes, s.MaxNodes)
}

// ownEndpoint is the master's address and port in a job of one node.
func (s *Spec) ownEndpoint() string {
	address, port := s.MasterAddr, s.MasterPort
	if s.Backend != "static" {
		address, port = s.LocalAddr, rendezvous.AnyPort
		if address == "" {
			address = "localhost"
		}
	}
	if port == 0 {
		port = rendezvous.DefaultPort
		if s.AnyPort {
			port = rendezvous.AnyPort
		}
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(port))
}

// resolve finds a name that cannot be looked up before any worker waits for it.
func resolve(ctx context.Context, endpoint string) error {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nd.Errorf(nd.ErrIO, "master address: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return nd.Errorf(nd.ErrIO, "MASTER_ADDR %s cannot be resolved: %w", host, err)
	}
	return nil
}

// configure fills in what a job of several nodes needs.
func (s *Spec) configure(c *rendezvous.Config) error {
	c.Endpoint = net.JoinHostPort(strings.Trim(s.MasterAddr, "[]"), strconv.Itoa(portOr(s.MasterPort, standardPort)))
	if !c.Static {
		host, port, err := splitEndpoint(s.Endpoint)
		if err != nil {
			return err
		}
		c.Endpoint = net.JoinHostPort(host, strconv.Itoa(portOr(port, rendezvousPort)))
	}
	c.Key = s.key
	return s.applyConf(c)
}

func portOr(port, other int) int {
	if port == 0 {
		return other
	}
	return port
}

// applyConf reads the keys of --rdzv-conf that mean something here; others are
// those of torch's stores.
func (s *Spec) applyConf(c *rendezvous.Config) error {
	for key, field := range map[string]*time.Duration{
		"timeout": &c.JoinTimeout, "last_call_timeout": &c.LastCall, "close_timeout": &c.CloseTimeout, "keep_alive_interval": &c.Heartbeat,
	} {
		if err := s.confSeconds(key, field); err != nil {
			return err
		}
	}
	if err := s.confSeconds("join_timeout", &c.JoinTimeout); err != nil { // wins over timeout, its old name
		return err
	}
	if v, ok := s.Conf["keep_alive_max_attempt"]; ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nd.Errorf(nd.ErrConfig, "--rdzv-conf has keep_alive_max_attempt=%s: a number from 1", v)
		}
		c.Attempts = n
	}
	if v, ok := s.Conf["is_host"]; ok {
		host, err := strconv.ParseBool(strings.ToLower(v))
		if err != nil {
			return nd.Errorf(nd.ErrConfig, "--rdzv-conf has is_host=%s: true or false", v)
		}
		c.Host = &host
	}
	return nil
}

func (s *Spec) confSeconds(key string, field *time.Duration) error {
	v, ok := s.Conf[key]
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0 && f < 1e8) {
		return nd.Errorf(nd.ErrConfig, "--rdzv-conf has %s=%s: a number of seconds", key, v)
	}
	*field = time.Duration(f * float64(time.Second))
	return nil
}

// node is what this node tells the others.
func (s *Spec) node(host string) rendezvous.Node {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it the host's name alone tells hosts apart
	return rendezvous.Node{Addr: s.LocalAddr, LocalWorld: s.Workers, Host: host, PID: os.Getpid(), Boot: strings.TrimSpace(string(boot)), Role: s.Role}
}
