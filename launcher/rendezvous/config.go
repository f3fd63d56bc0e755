package rendezvous

import (
	"net"
	"strconv"
	"time"

	"github.com/headrace/headrace/nd"
)

// Config says which job a node joins, and as what.
type Config struct {
	RunID string
	// Endpoint is host:port of the rendezvous. In a static job it is the master's
	// address and port too, and node rank 0 listens there; in an elastic one the
	// node that the host belongs to listens.
	Endpoint string
	// Key authenticates the nodes to one another (the bytes of HEADRACE_KEY_FILE).
	// Empty: one derived from run id and endpoint, which keeps jobs apart and
	// intruders not out.
	Key []byte

	Node     Node
	NodeRank int // -1: no wish. A static job needs it
	Static   bool
	Min, Max int   // nodes; a static job has Min = Max
	Host     *bool // whether this node listens at Endpoint; nil: found out

	MaxRestarts int // of the job, the same on every node

	JoinTimeout  time.Duration // for a round to come together; 0: 600 s
	LastCall     time.Duration // for more nodes once there are Min; 0: 30 s
	ExitTimeout  time.Duration // for the others once a node succeeded; 0: 300 s
	CloseTimeout time.Duration // for the others to hear of the end; 0: 30 s
	Heartbeat    time.Duration // between signs of life; 0: 5 s
	Attempts     int           // heartbeats missed until a node is lost; 0: 3

	// Notice, if set, is told in one line what the rendezvous waits for. It must
	// not block.
	Notice func(text string)
}

// Document is a small document from another node.
type Document struct {
	Round int
	From  int // group rank
	Kind  string
	Doc   []byte
}

func splitEndpoint(endpoint string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0, nd.Errorf(nd.ErrConfig, "rendezvous endpoint %q: want host:port", endpoint)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, nd.Errorf(nd.ErrConfig, "rendezvous endpoint %q: want a port from 0 to 65535", endpoint)
	}
	return host, port, nil
}
