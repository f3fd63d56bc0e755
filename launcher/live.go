package launcher

import (
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

// members is what a launcher has with --live: its agent, and what the agent's views mean.
type members struct {
	agent  *agent.Agent
	keeper *keeper // of Run's goroutine
	began  time.Time
	met    bool        // of Run's goroutine: the nodes have met
	asked  atomic.Bool // a look at the agent is queued
}

func (s *Spec) liveRules() []rule {
	several := s.MaxNodes > 1 && !s.Standalone
	return []rule{
		{s.Live || len(s.LiveContacts) == 0 && s.LivePort == 0, "--live-contact and --live-port need --live"},
		{!s.Live || !several || s.Backend == "c10d" || len(s.LiveContacts) > 0, "--live with several nodes needs --rdzv-backend c10d: in a static job no node can leave or come"},
		{!s.Live || s.KeyFile != "" || s.liveLoopback() || !several && len(s.LiveContacts) == 0, "--live between hosts needs --key-file (HEADRACE_KEY_FILE): a file of 16 bytes or more, the same on all nodes"},
		{s.LiveProfile == "" || slices.Contains(liveProfiles(), s.LiveProfile), "--live-profile is " + strconv.Quote(s.LiveProfile) + ": default or fast"},
		{s.LivePort >= 0 && s.LivePort <= 65535, "--live-port is " + strconv.Itoa(s.LivePort) + ": 0 to 65535"},
		{!slices.ContainsFunc(s.LiveContacts, func(c string) bool { _, port, err := splitEndpoint(c); return err != nil || port == 0 }), "--live-contact is " + strconv.Quote(strings.Join(s.LiveContacts, ",")) + ": HOST:PORT, with commas between them"},
	}
}

// liveLoopback reports whether all of the job's nodes are on this host.
func (s *Spec) liveLoopback() bool {
	for _, at := range append(slices.Clone(s.LiveContacts), s.Endpoint) {
		host, _, err := splitEndpoint(at)
		if at != "" && (err != nil || !loopback(host)) {
			return false
		}
	}
	return s.LocalAddr == "" || loopback(s.LocalAddr)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// liveKey is the agents' key. A job of one node, which nobody joins, needs none but its own.
func (s *Spec) liveKey() []byte {
	if s.key != nil || s.open() {
		return s.key
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the process instead
	return key
}

// open reports whether an agent of another launcher, or a witness, may join the job.
func (s *Spec) open() bool { return s.key != nil || !s.alone() || len(s.LiveContacts) > 0 }

// liveJob is the job's name for its agents, and for who looks at its page: the script's where it
// has none and no other agent must be given it.
func (s *Spec) liveJob() string {
	if s.open() || s.RunID != Default().RunID {
		return s.RunID
	}
	return cut(filepath.Base(s.Script), maxRunID)
}

// openAgent opens the agent, which waits for the nodes to meet.
func (sh *shell) openAgent() (func() error, error) {
	s := sh.spec
	host := ""
	if s.liveLoopback() || s.alone() && len(s.LiveContacts) == 0 {
		host = "127.0.0.1"
		for _, at := range append(slices.Clone(s.LiveContacts), s.Endpoint) {
			if h, _, _ := splitEndpoint(at); strings.Contains(h, ":") {
				host = h
			}
		}
	}
	m := &members{began: time.Now(), keeper: newKeeper(s)}
	var err error
	m.agent, err = agent.Open(agent.Config{
		Job: s.liveJob(), Name: sh.host, Listen: net.JoinHostPort(host, strconv.Itoa(s.LivePort)), Await: true, Alone: -1, Key: s.liveKey(), Profile: s.LiveProfile, Release: s.Release,
		Listener: agent.Listener{Changed: func() { sh.askLook(m) }, Event: sh.tellStalled},
	})
	if err != nil {
		return nil, inUse("--live-port", s.LivePort, err)
	}
	sh.live = m
	return m.agent.Close, nil
}

// tellStalled prints that a rank hangs, which no view says.
func (sh *shell) tellStalled(e agent.Event) {
	if e.Kind == agent.Stalled {
		sh.box.put(event{kind: called, call: func() { sh.warn(e.Text) }})
	}
}

// inUse names the flag of a port that somebody has, and who that is, as far as can be seen.
func inUse(flag string, port int, err error) error {
	if port == 0 || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return nd.Errorf(nd.ErrIO, "%s: port %d is in use by %s: stop it, or name another port", flag, port, rendezvous.PortOwner(port))
}

// coordinator is the agent as the ranks' socket offers it, nil without one.
func (sh *shell) coordinator() agentapi.Coordinator {
	if sh.live == nil {
		return nil
	}
	return sh.live.agent
}

// mostContacts bounds whom an agent asks for the job: each of thousands would be asked by
// thousands.
const mostContacts = 4

// meet tells the agent who is there. It may be called from any goroutine.
func (sh *shell) meet(r rendezvous.Round) error {
	s := sh.spec
	m := agent.Meeting{Expect: r.World(), Form: r.Rank == 0 && !r.Late, Contacts: s.LiveContacts}
	switch {
	case len(s.LiveContacts) > 0:
		own, err := s.facing(s.LiveContacts[0])
		if err != nil {
			return err
		}
		m.Advertise = net.JoinHostPort(own, strconv.Itoa(sh.live.agent.Port()))
	case !s.alone():
		own := s.hostOf(&r, r.Rank)
		for i := range r.Nodes {
			if other := s.hostOf(&r, i); loopback(own) && !loopback(other) {
				return nd.Errorf(nd.ErrConfig, "--live: this node is %s for itself, and %s is another host: name this one by --local-addr", own, other)
			}
		}
		m.Advertise = net.JoinHostPort(own, strconv.Itoa(sh.live.agent.Port()))
		for i := range r.Nodes {
			next := (r.Rank + i) % len(r.Nodes)
			if i == 0 || r.Nodes[next].Agent == 0 || len(m.Contacts) == mostContacts && next != 0 {
				continue
			}
			m.Contacts = append(m.Contacts, net.JoinHostPort(s.hostOf(&r, next), strconv.Itoa(r.Nodes[next].Agent)))
		}
		if m.Form {
			m.Contacts = nil // they know of no job before there is one
		}
	}
	if err := sh.live.agent.Meet(m); err != nil {
		return err
	}
	if !s.alone() || len(s.LiveContacts) > 0 {
		sh.warn("the agent of this node is at " + m.Advertise)
	}
	return nil
}

// hostOf is the address of a node: the one that it has given or is seen by, and the
// endpoint's host for those of the coordinator's machine.
func (s *Spec) hostOf(r *rendezvous.Round, node int) string {
	if addr := r.Nodes[node].Addr; addr != "" && !loopback(addr) {
		return addr
	}
	host, _, _ := splitEndpoint(s.Endpoint) // the rendezvous has dialled it
	if addr := r.Nodes[node].Addr; addr != "" && loopback(host) {
		return addr
	}
	return host
}

// facing is this host's address on the way to another one.
func (s *Spec) facing(contact string) (string, error) {
	if s.LocalAddr != "" {
		return s.LocalAddr, nil
	}
	conn, err := net.Dial("udp", contact) // sends nothing
	if err != nil {
		return "", nd.Errorf(nd.ErrIO, "--live-contact: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// lookEvery is how often time alone is given to the keeper.
const lookEvery = 500 * time.Millisecond

// watch looks at the agent from time to time, until the job is over.
func (sh *shell) watch(r rendezvous.Round) {
	m := sh.live
	m.met, m.keeper.late = true, r.Late
	sh.talks.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sh.askLook(m)
			case <-sh.stop:
				return
			}
		}
	})
}

// askLook queues a look at the agent. It never waits.
func (sh *shell) askLook(m *members) {
	if !m.asked.Swap(true) {
		sh.box.put(event{kind: called, call: func() {
			m.asked.Store(false)
			sh.look()
		}})
	}
}

func (sh *shell) look() {
	m := sh.live
	if !m.met {
		return
	}
	m.agent.Look(func(s agent.Sight) { m.keeper.look(time.Since(m.began), &s) })
	sh.keep()
}

// keep does what the keeper wants.
func (sh *shell) keep() {
	out := sh.live.keeper.take()
	for _, line := range out.lines {
		sh.warn(line)
	}
	if out.note != nil {
		sh.warnOf(sh.live.agent.Tell(out.note))
	}
	if g := sh.entered(); out.outcome != nil && g != nil {
		out.outcome.Round = sh.sup.round.Number
		_ = g.Report(sh.talk, *out.outcome) // it does not wait
	}
	if out.event != nil {
		out.event.Round = sh.sup.round.Number
		sh.box.put(event{kind: groupSpoke, group: *out.event, code: out.code})
	}
}

// heardLive takes the rendezvous's last word.
func (sh *shell) heardLive(g rendezvous.Group, e rendezvous.Event) {
	sh.live.keeper.hears(e)
	sh.keep()
	sh.talks.Go(func() { _ = g.Close() }) // who closes it once more does not wait
}

// reportLive takes what the supervisor reports.
func (sh *shell) reportLive(o rendezvous.Outcome) {
	k := sh.live.keeper
	switch o.Kind {
	case rendezvous.Signalled:
		k.signalled(o.Signal, stopsAll(o.Signal))
	default:
		k.finish(o)
	}
	sh.keep()
	sh.askLook(sh.live)
}

// stopsAll reports whether a signal stops the job, on all nodes. SIGTERM is how schedulers
// take one node back.
func stopsAll(signal int) bool { return signal != int(syscall.SIGTERM) }

// viewNow is the number of the newest view that is known here.
func (sh *shell) viewNow() (number uint64) {
	sh.live.agent.Look(func(s agent.Sight) {
		if s.State.View != nil {
			number = s.State.View.Number
		}
	})
	return number
}
