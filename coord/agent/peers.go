package agent

import (
	"context"
	"net"
	"slices"

	"github.com/hashicorp/memberlist"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/nd"
)

// Meeting is who is there when a job begins, as a launcher's rendezvous has found it.
type Meeting struct {
	Advertise string   // host:port by which others reach this agent; "": where it listens
	Contacts  []string // host:port of other agents
	Form      bool     // this one forms the job
	Expect    int
}

// Meet tells an agent that was opened with Await who else is there. Ranks may attach from
// here on.
func (a *Agent) Meet(m Meeting) error {
	return a.do(context.Background(), func() error {
		cfg := a.config
		cfg.Await, cfg.Contacts, cfg.Form, cfg.Expect, cfg.Advertise = false, m.Contacts, m.Form, m.Expect, m.Advertise
		cfg.fill()
		if err := cfg.Validate(); err != nil {
			return err
		}
		// These belong to the agent's goroutine; the rest of config is read by others too.
		a.config.Await, a.config.Contacts, a.config.Form, a.config.Expect = false, cfg.Contacts, cfg.Form, cfg.Expect
		if m.Advertise != "" {
			a.mu.Lock()
			a.address = m.Advertise
			a.mu.Unlock()
		}
		return nil
	})
}

// Port is the number at which the agent listens.
func (a *Agent) Port() int { return a.port.Addr().(*net.TCPAddr).Port }

// Peer is what gossip tells of another agent.
type Peer struct {
	Note []byte // what it has told; see Tell
	Lost bool   // it does not answer
	Left bool   // it has said that it goes
}

// Sight is what an agent knows at one moment. It is only to be read.
type Sight struct {
	ID    coord.ID // of this agent as a member; zero: no rank has said yet what the job is
	State group.State
	Peers map[coord.ID]Peer
	// Waiting is why nothing new can be decided now; empty: it can, as far as is known.
	Waiting string
	// Deaf: no majority answers, or nobody of the job does. Nothing new is decided until that
	// changes.
	Deaf bool
	// Voters is how many agents decide, where this one is one of them: after a change of the
	// view those of the view, a moment later. 0: it is none, or they are being changed.
	Voters int
}

// Look shows what the agent knows. The function keeps the agent waiting, for its lock is held, and
// calls none of its methods; a lock that it takes is never held where one of them is called.
func (a *Agent) Look(f func(Sight)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(Sight{ID: a.mu.self, State: a.mu.state, Peers: a.mu.peers, Waiting: a.mu.waiting, Deaf: a.mu.deaf, Voters: a.mu.voters})
}

// MaxNote is the most bytes of a note.
const MaxNote = memberlist.MetaMaxSize - 1

// Tell has a small note about this agent told to all others by gossip, in place of the one
// before. It outlives the agent's own part as a member. Tell does not wait.
func (a *Agent) Tell(note []byte) error {
	if len(note) > MaxNote {
		return nd.Errorf(nd.ErrBudget, "a note of %d bytes, at most %d are taken", len(note), MaxNote)
	}
	note = slices.Clone(note)
	a.inbox.put(call(func() {
		a.memo = note
		if a.self.gossip != nil {
			a.self.gossip.tell(note)
		}
	}))
	return nil
}

// sees keeps what gossip has seen.
func (a *Agent) sees(x seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := Peer{Note: x.note, Lost: x.state == group.Dead, Left: x.gone}
	a.mu.peers[x.id] = p
	a.mu.fresh = true
}

func (a *Agent) noted(x noted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.mu.peers[x.id]
	p.Note, p.Left = x.note, x.gone
	a.mu.peers[x.id] = p
	a.mu.fresh = true
}

// viewed forgets who is gone and was not in the last view either.
func (a *Agent) viewed(v *coord.View) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.mu.state.View
	for id, p := range a.mu.peers {
		if (p.Lost || p.Left) && v.Index(id) < 0 && (before == nil || before.Index(id) < 0) {
			delete(a.mu.peers, id)
		}
	}
}

// keep publishes the newest state, and says so where it matters to who looks.
func (a *Agent) keep(s group.State) {
	waiting, deaf := a.waiting(), a.self.node.Deaf() || s.View == nil
	voters := a.voters(&s)
	a.mu.Lock()
	old := &a.mu.state
	changed := a.mu.voters != voters || a.mu.deaf != deaf || a.mu.fresh || a.mu.self != a.self.id || old.View != s.View || old.Open != s.Open || old.Over != s.Over ||
		old.Halted != s.Halted || a.mu.waiting != waiting || old.Refused != s.Refused
	a.mu.state, a.mu.self, a.mu.waiting, a.mu.deaf, a.mu.voters, a.mu.fresh = s, a.self.id, waiting, deaf, voters, false
	a.mu.Unlock()
	if changed && a.config.Listener.Changed != nil {
		a.config.Listener.Changed()
	}
}

// voters is how many agents decide, where this one is one of them; 0: it is none, or they are
// being changed.
func (a *Agent) voters(s *group.State) int {
	if !s.Votes {
		return 0
	}
	if r, ok := a.self.node.Replica(); ok && len(r.Outgoing) == 0 {
		return len(r.Voters)
	}
	return 0
}
