package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/nd"
)

const (
	// scoutAfter is when contacts are asked first who they are: those that are started with this
	// agent are there by then, and what is wrong is told within 5 s.
	scoutAfter = 2 * time.Second
	// scoutBound is how long they may take to answer.
	scoutBound = 2500 * time.Millisecond
	// scoutSeldom is how seldom they are asked in the end.
	scoutSeldom = 16 * time.Second
)

// scout is what the contacts say while this agent knows of no view. Gossip and requests to be
// admitted drop what is not theirs without a word; a probe is answered, or its error is known.
type scout struct {
	out   bool
	tries int
	next  time.Duration // when they are asked again
	found bool          // one of them is of the job
	says  string        // what the others are, or why they do not answer
}

// searches reports whether this agent has to find the job, and no rank makes it a member yet.
func (a *Agent) searches() bool {
	return a.self.node == nil && a.stuck == nil && a.refused == nil && !a.config.Await && !a.config.Form
}

// ask sends the scout out, if it is time and the job was not found.
func (a *Agent) ask() {
	s := &a.scout
	known := a.self.node != nil && a.self.node.State().View != nil
	if known || s.out || a.refused != nil || a.config.Await || a.config.Form || len(a.config.Contacts) == 0 {
		return
	}
	if s.tries == 0 && s.next == 0 {
		s.next = a.now() + a.config.patience(scoutAfter)
	}
	if a.now() < s.next {
		return
	}
	s.out = true
	cfg := a.config // it may change, see Meet
	contacts := cfg.Contacts[:min(len(cfg.Contacts), mostAsked)]
	a.done.Go(func() {
		says, found := cfg.scout(a.ending, contacts)
		a.inbox.put(call(func() {
			s.out, s.says, s.found = false, says, found
			s.next = a.now() + a.config.patience(min(scoutSeldom, scoutAfter<<s.tries))
			s.tries = min(s.tries+1, 10)
		}))
	})
}

// patience is a pause that leaves time for a few before this agent gives up.
func (c *Config) patience(pause time.Duration) time.Duration {
	if c.Alone > 0 {
		return min(pause, c.Alone/4)
	}
	return pause
}

// scout asks contacts who they are, all at the same time.
func (c *Config) scout(ctx context.Context, contacts []string) (says string, found bool) {
	ctx, cancel := context.WithTimeout(ctx, scoutBound)
	defer cancel()
	each, of := make([]string, len(contacts)), make([]bool, len(contacts))
	var asking sync.WaitGroup
	for i, address := range contacts {
		asking.Go(func() {
			p, err := askAgent(ctx, address, c.Key)
			each[i], of[i] = c.reads(address, p, err)
		})
	}
	asking.Wait()
	var list []string
	for i, text := range each {
		found = found || of[i]
		if text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; "), found
}

// reads is what an agent's answer means to one of this config: what to do, and whether it is of the
// job.
func (c *Config) reads(address string, p Answer, err error) (says string, found bool) {
	switch {
	case errors.Is(err, nd.ErrConfig):
		return fmt.Sprintf("%s: %s (%s)", address, detail(err), c.flag("Key")), false
	case errors.Is(err, nd.ErrUnsupported), errors.Is(err, nd.ErrCorrupt):
		return fmt.Sprintf("%s: %s", address, detail(err)), false
	case err != nil:
		return fmt.Sprintf("%s does not answer (%s)", address, detail(err)), false
	case p.Job != c.Job:
		return fmt.Sprintf("%s is of job %.80q, this agent of %.80q (%s)", address, p.Job, c.Job, c.flag("Job")), false
	case p.Nodes == 0:
		return address + " is of the job, and in no view yet", true
	}
	return "", true
}

// detail is the cause of an error of a stream, as the system has it.
func detail(err error) string {
	if no, is := errors.AsType[syscall.Errno](err); is {
		return no.Error()
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return cmp.Or(dns.Err, dns.Error())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if e, is := errors.AsType[*nd.Error](err); is {
		return e.Detail
	}
	return err.Error()
}

// waiting is why nothing new can be decided now, or no job was found; empty: nothing is known to
// be in the way.
func (a *Agent) waiting() string {
	const nobody = "no agent of the job has answered yet"
	n, says := a.self.node, a.scout.says
	switch {
	case n == nil && a.searches() && !a.scout.found && says != "":
		return nobody + ": " + says
	case n == nil:
		return ""
	case n.State().View != nil || n.Waiting() == "":
		return n.Waiting()
	case a.config.Form && a.self.forms > 0:
		return "the contacts are asked for the job, before this agent forms it"
	case a.config.Form:
		return "this agent is forming the job"
	case says != "":
		return nobody + ": " + says
	}
	return nobody
}
