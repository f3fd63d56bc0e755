package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/plural"
	"github.com/headrace/headrace/nd"
)

// gossip reaches for agents, all at the same time, and says of each what is in the way.
func (s System) gossip(ctx context.Context) []Check {
	reached := make([]agent.Reach, len(s.Gossip))
	var running sync.WaitGroup
	for i, address := range s.Gossip {
		running.Go(func() { reached[i] = s.Reach(ctx, address) })
	}
	running.Wait()
	var checks []Check
	job := ""
	for i, r := range reached {
		c := reach(s.Gossip[i], r)
		switch {
		case r.StreamError != nil:
		case job == "":
			job = r.Answer.Job
		case r.Answer.Job != job && c.Status == OK:
			c.Status, c.Advice = Fail, fmt.Sprintf("the agents before it are of job %s: give --job the same name on all nodes", job)
		}
		checks = append(checks, c)
	}
	return checks
}

// reach is what came of one agent.
func reach(address string, r agent.Reach) Check {
	c := Check{Name: "gossip " + address, Status: Fail}
	if r.StreamError != nil {
		c.Found, c.Advice = "TCP: "+why(r.StreamError), streamAdvice(r.StreamError)
		if r.PacketError == nil {
			c.Found += "; UDP answers, with the key"
		}
		return c
	}
	p := r.Answer
	who := fmt.Sprintf("job %s, node %s, version %s", p.Job, p.Name, p.Release)
	switch {
	case p.Nodes > 0:
		who += fmt.Sprintf(", view %d: %s, %s", p.View, plural.Of(p.Nodes, "node"), plural.Of(p.Ranks, "rank"))
	case p.Waiting != "":
		who += ", " + p.Waiting
	default:
		who += ", not in a view yet"
	}
	if r.PacketError != nil {
		_, port, _ := net.SplitHostPort(address) // it was dialled
		c.Found = fmt.Sprintf("UDP: %s to %d packets; TCP is well (%s)", why(r.PacketError), agent.Packets, who)
		c.Advice = "gossip needs UDP beside TCP: open port " + port + " for both, both ways, and for packets of 1400 bytes"
		return c
	}
	c.Status = OK
	c.Found = fmt.Sprintf("TCP %s, UDP %s, the same key; %s", brief(r.Stream), brief(r.Packet), who)
	if r.Lost > 0 {
		c.Status = Warn
		c.Found = fmt.Sprintf("%d of %d UDP packets are lost; ", r.Lost, agent.Packets) + c.Found
		c.Advice = "gossip stands a few lost packets in a hundred: look for a full link or a filter that limits UDP"
	}
	return c
}

// why is an error without its kind, for people.
func why(err error) string {
	if e, ok := errors.AsType[*nd.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}

func streamAdvice(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, nd.ErrConfig):
		return "give --key-file (HEADRACE_KEY_FILE) the file that the agents have, and the port of --listen"
	case errors.Is(err, nd.ErrUnsupported):
		return "install the same headrace on all nodes"
	case errors.As(err, &dns):
		return "the name is not known here: give an address, or fix the resolver"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the agent, with --listen on an address that this node reaches (the default is loopback)"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded): // of a read, of a dial
		return "no answer: a firewall drops TCP to that port, or the host is down"
	}
	return "look at the address, the route and the firewall"
}

func brief(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
