package rendezvous

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/nd"
)

// Config says which job a node joins, and as what.
type Config struct {
	RunID string
	// Endpoint is host:port of the rendezvous. In a static job it is the master's
	// address and port too, and node rank 0 listens there; in an elastic one the
	// node that the host belongs to listens. Single takes it as the master's; its
	// port may be AnyPort or DefaultPort there.
	Endpoint string
	// Key authenticates the nodes to one another (the bytes of HEADRACE_KEY_FILE).
	// Empty: one derived from run id and endpoint, which keeps jobs apart and
	// intruders not out.
	Key []byte

	Node     Node
	NodeRank int // -1: no wish. A static job needs it
	Static   bool
	Min, Max int   // nodes; a static job has Min = Max
	Host     *bool // whether this node listens at Endpoint; nil: found out. Static jobs ignore it

	MaxRestarts int // of the job, the same on every node
	// Live has one round without end: nodes that are lost leave it, others come into it,
	// and the rest hears no more of that than a document. See machine_live.go.
	Live bool

	JoinTimeout  time.Duration // for a round to come together; 0: 600 s
	LastCall     time.Duration // for more nodes once there are Min; 0: 30 s
	ExitTimeout  time.Duration // for the others once a node succeeded; 0: 300 s
	CloseTimeout time.Duration // for the others to hear of the end; 0: 30 s
	Heartbeat    time.Duration // between signs of life; 0: 5 s
	Attempts     int           // heartbeats missed until a node is lost; 0: 3

	// Notice, if set, is told in one line what the rendezvous waits for or warns of.
	// It must not block.
	Notice func(text string)

	network *network // of tests; nil: the kernel's
}

// fill sets the defaults, those of torchrun where it has one.
func (c *Config) fill() {
	c.JoinTimeout = cmp.Or(c.JoinTimeout, 600*time.Second)
	c.LastCall = cmp.Or(c.LastCall, 30*time.Second)
	c.ExitTimeout = cmp.Or(c.ExitTimeout, 300*time.Second)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 30*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 5*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 3)
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.network == nil {
		c.network = kernel()
	}
}

// lostAfter is the silence after which a node counts as dead.
func (c *Config) lostAfter() time.Duration { return c.Heartbeat * time.Duration(c.Attempts) }

// beat is the time between signs of life, and between looks at those of others: there
// are at least three until a node counts as dead, whatever Attempts is.
func (c *Config) beat() time.Duration {
	return max(time.Millisecond, min(c.Heartbeat, c.lostAfter()/3))
}

// maxNodes bounds the nodes of a job, so that what a coordinator keeps is bounded.
const maxNodes = 1 << 16

// Validate reports everything that is wrong with the configuration of a Join.
func (c *Config) Validate() error {
	var wrong []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	_, port, err := splitEndpoint(c.Endpoint)
	add(err != nil, "the endpoint %q is not host:port", c.Endpoint)
	add(err == nil && port == 0, "the endpoint %q has no port that other nodes could know", c.Endpoint)
	add(c.Min < 1 || c.Max < c.Min || c.Max > maxNodes, "%d to %d nodes, must be from 1 to %d", c.Min, c.Max, maxNodes)
	add(c.Static && c.Min != c.Max, "a static job has a fixed number of nodes, not %d to %d", c.Min, c.Max)
	add(c.Static && c.NodeRank < 0, "a static job needs each node's rank")
	add(c.NodeRank >= c.Max, "node rank %d, must be below the %d nodes", c.NodeRank, c.Max)
	add(c.Node.LocalWorld < 1, "%d workers on this node, must be at least 1", c.Node.LocalWorld)
	add(c.MaxRestarts < 0, "%d restarts, must be at least 0", c.MaxRestarts)
	for _, d := range []time.Duration{c.JoinTimeout, c.LastCall, c.ExitTimeout, c.CloseTimeout, c.Heartbeat, time.Duration(c.Attempts)} {
		add(d < 0, "a timeout is negative")
	}
	if len(wrong) > 0 {
		return nd.Errorf(nd.ErrConfig, "rendezvous: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// key is the job's key. The derived one takes the endpoint's port alone: nodes may
// spell its host differently (localhost on the node itself), and are then still of
// one job.
func (c *Config) key() []byte {
	if len(c.Key) > 0 {
		return c.Key
	}
	_, port, _ := splitEndpoint(c.Endpoint) // Validate has checked it
	mac := hmac.New(sha256.New, []byte("headrace rendezvous, derived key"))
	_, _ = fmt.Fprintf(mac, "%d:%s:%d", len(c.RunID), c.RunID, port) // a hash takes everything
	return mac.Sum(nil)
}

func splitEndpoint(endpoint string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0, nd.Errorf(nd.ErrConfig, "endpoint %q: want host:port", endpoint)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < AnyPort || port > 65535 {
		return "", 0, nd.Errorf(nd.ErrConfig, "endpoint %q: want a port from 1 to 65535", endpoint)
	}
	return host, port, nil
}

// loopback reports whether a host is surely this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
