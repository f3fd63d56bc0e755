package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/nd"
)

// Each thing that can be in the way has its own words, and says what to do.
func TestGossip(t *testing.T) {
	io := func(err error) error { return nd.Errorf(nd.ErrIO, "%w", err) }
	f := func(r agent.Reach, status Status, words ...string) {
		t.Helper()
		s := System{Gossip: []string{"n:7946"}, Reach: func(context.Context, string) agent.Reach { return r }}
		expect(t, s.gossip(t.Context())[0], status, words...)
	}
	peer := agent.Answer{Job: "run7", Name: "node1", Release: "1.2.3"}
	in := peer
	in.View, in.Nodes, in.Ranks = 4, 3, 24
	silent := nd.Errorf(nd.ErrIO, "no answer")
	f(agent.Reach{Answer: in, Stream: time.Millisecond, Packet: 400 * time.Microsecond}, OK, "TCP 1.0 ms", "UDP 0.4 ms", "run7", "view 4: 3 nodes, 24 ranks")
	f(agent.Reach{Answer: peer}, OK, "not in a view yet")
	f(agent.Reach{Answer: in, Lost: 1}, Warn, "1 of 3 UDP packets are lost")
	f(agent.Reach{Answer: in, PacketError: silent}, Fail, "UDP: no answer", "TCP is well", "port 7946 for both")
	f(agent.Reach{StreamError: io(os.NewSyscallError("connect", syscall.ECONNREFUSED)), PacketError: silent}, Fail, "nothing listens there", "--listen")
	f(agent.Reach{StreamError: io(fmt.Errorf("dial: %w", os.ErrDeadlineExceeded)), PacketError: silent}, Fail, "a firewall drops TCP")
	f(agent.Reach{StreamError: io(&net.DNSError{Err: "no such host", Name: "n"}), PacketError: silent}, Fail, "the name is not known")
	f(agent.Reach{StreamError: nd.Errorf(nd.ErrConfig, "it has another key"), PacketError: silent}, Fail, "another key", "--key-file")
	f(agent.Reach{StreamError: nd.Errorf(nd.ErrUnsupported, "it speaks version 9"), PacketError: silent}, Fail, "version 9", "install the same")
	f(agent.Reach{StreamError: io(os.ErrDeadlineExceeded)}, Fail, "UDP answers")

	jobs := map[string]string{"a:1": "run7", "b:1": "run7", "c:1": "run8"}
	s := System{Gossip: []string{"a:1", "b:1", "c:1"}, Reach: func(_ context.Context, at string) agent.Reach {
		p := peer
		p.Job = jobs[at]
		return agent.Reach{Answer: p}
	}}
	checks := s.gossip(t.Context())
	for i, want := range []Status{OK, OK, Fail} {
		if checks[i].Status != want || checks[i].Name != "gossip "+s.Gossip[i] {
			t.Errorf("%+v, want %s", checks[i], want)
		}
	}
}
