package launcher

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/plural"
	"github.com/headrace/headrace/launcher/rendezvous"
)

// keeper says what the agents' views, and what the other launchers tell, mean for this node
// of a live job. It is pure: what is known goes in with the time, lines for people and an
// event for the supervisor come out.
type keeper struct {
	min, max int
	patience time.Duration // without a majority, until the job stops here
	exit     time.Duration // for the others, after this node's workers have ended well
	late     bool          // the job had begun when this node came
	invited  bool          // it came by an agent, past the rendezvous: it counts the nodes itself

	now    time.Duration
	self   coord.ID    // of this node's agent
	view   *coord.View // the newest that was told of
	opened bool        // all ranks that were expected have been there once
	ended  bool        // a node has ended well: those that are left are not counted any more
	broken string      // what will keep the job from beginning
	deaf   bool
	told   bool          // of that
	voters int           // that decide, as was told
	since  time.Duration // when it became deaf
	short  bool          // too few nodes have ranks
	from   time.Duration // when that began
	full   time.Duration // since when there is no place for this node; 0: there is
	own    condition
	first  *rendezvous.Failure // of this node's workers, that is not made good
	at     time.Duration       // when its workers had ended
	stays  bool                // it was told that this node stays

	decided bool
	out     keeperOutput
}

// keeperOutput is what is to be done.
type keeperOutput struct {
	lines   []string
	event   *rendezvous.Event // for the supervisor
	code    int               // exit code that goes with it; 0: the cause's
	note    []byte            // to be told to the others; nil: nothing new
	outcome *rendezvous.Outcome
}

// condition is how a node is, as the others hear of it.
type condition string

const (
	working  condition = "run"
	finished condition = "done"  // its workers have ended, one of them well
	spent    condition = "spent" // all its workers have failed, and are not started again
	leaving  condition = "left"  // it was told to end, alone
	halting  condition = "stop"  // it stops the job: for a signal, or for a cause
)

// note is what a launcher tells all others by its agent.
type note struct {
	Condition condition           `json:"s"`
	Signal    int                 `json:"n,omitempty"`
	Reason    string              `json:"r,omitempty"`
	Cause     *rendezvous.Failure `json:"c,omitempty"` // first failure that is not made good
}

const (
	// settle is how long too few nodes must have ranks: what agents tell of each other
	// comes by another way than views.
	settle = 3 * time.Second
	// crowded is how long a job must be full: the one whose place a node takes may still have
	// to be found dead.
	crowded = 15 * time.Second
	// farewell is how long a node whose workers have ended waits for a majority.
	farewell = 5 * time.Second
	// codeDeaf is the exit code of a job that stops for want of a majority: EX_TEMPFAIL of
	// sysexits.h, which tells a scheduler to try again.
	codeDeaf = 75
)

func newKeeper(s *Spec) *keeper {
	k := &keeper{min: s.MinNodes, max: s.MaxNodes, patience: s.LiveTimeout, exit: s.ExitTimeout, own: working, invited: len(s.LiveContacts) > 0}
	if k.exit == 0 {
		k.exit = endless
	}
	k.say("", 0)
	return k
}

// take gives what is to be done, once.
func (k *keeper) take() keeperOutput {
	out := k.out
	k.out = keeperOutput{}
	return out
}

func (k *keeper) line(text string) { k.out.lines = append(k.out.lines, text) }

// say makes the note that tells how this node is.
func (k *keeper) say(reason string, signal int) {
	n := note{Condition: k.own, Signal: signal, Reason: cut(reason, 120)}
	if f := k.first; f != nil {
		c := *f
		c.Error, c.ErrorFile, c.Host, c.Message = nil, "", cut(c.Host, 60), cut(c.Message, 100)
		n.Cause = &c
	}
	text, err := json.Marshal(n)
	if err != nil || len(text) > agent.MaxNote {
		n.Reason, n.Cause = "", nil
		text, _ = json.Marshal(n) // of texts and numbers
	}
	k.out.note = text
}

// cut shortens a text that has to fit.
func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// decide ends the job for this node.
func (k *keeper) decide(e rendezvous.Event, code int) {
	if !k.decided {
		k.decided = true
		k.out.event, k.out.code = &e, code
	}
}

// halt ends it, and has the others end it too.
func (k *keeper) halt(e rendezvous.Event, code int) {
	if k.decided {
		return
	}
	k.own = halting
	if e.Cause != nil {
		k.first = e.Cause
	}
	k.say(e.Reason, e.Signal)
	k.decide(e, code)
}

// lose takes a worker of this node that is not started again.
func (k *keeper) lose(f *rendezvous.Failure) {
	if k.first == nil {
		k.first = f
		k.say("", 0)
	}
	if k.opened || k.late || k.decided {
		return
	}
	// The job waits for as many ranks as there were to be.
	k.out.outcome = &rendezvous.Outcome{Kind: rendezvous.Failed, Cause: f}
	k.halt(rendezvous.Event{Kind: rendezvous.Stop, Cause: f, Reason: "a worker failed before the job had begun"}, 0)
}

// finish takes the end of this node's workers.
func (k *keeper) finish(o rendezvous.Outcome) {
	k.own, k.at = finished, k.now
	if o.Kind == rendezvous.Failed {
		k.own = spent
	}
	k.say("", 0)
}

// signalled takes a signal to this launcher. SIGTERM takes this node out of the job, any
// other one stops the job.
func (k *keeper) signalled(signal int, stops bool) {
	k.decided = true
	k.own = leaving
	if stops {
		k.own = halting
		k.out.outcome = &rendezvous.Outcome{Kind: rendezvous.Signalled, Signal: signal}
	}
	k.say("", signal)
}

// hears takes what the rendezvous says after the nodes have met: that the job stops, or that
// it is there no more itself.
func (k *keeper) hears(e rendezvous.Event) {
	switch {
	case e.Signal != 0 || e.Cause != nil:
		k.decide(e, 0)
	case !k.opened:
		k.broken = e.Reason
		k.line("the rendezvous has ended: " + e.Reason)
	case !k.decided && k.own == working:
		k.line("the rendezvous has ended, and the job goes on: nodes that come later need --live-contact " + k.addresses())
	}
}

// misses takes a node that the rendezvous has lost.
func (k *keeper) misses(why string) {
	if !k.opened {
		k.broken = why
	}
}

// look takes what the agent knows, at least once a second.
func (k *keeper) look(now time.Duration, s *agent.Sight) {
	k.now, k.self = now, s.ID
	k.opened = k.opened || s.State.Open
	k.tellView(s)
	k.tellDeaf(s)
	k.tellVoters(s)
	k.hearNotes(s)
	if k.decided {
		return
	}
	switch {
	case s.State.Refused != "":
		k.decide(rendezvous.Event{Kind: rendezvous.Stop, Reason: "the job does not take this node: " + s.State.Refused}, 1)
	case k.broken != "" && !k.opened && s.ID != (coord.ID{}):
		k.decide(rendezvous.Event{Kind: rendezvous.Stop, Reason: k.broken + ", before the job had begun"}, 1)
	case k.own == working && k.deaf && now-k.since >= k.patience:
		k.decide(rendezvous.Event{Kind: rendezvous.Stop, Reason: k.stopsDeaf(s)}, codeDeaf)
	case k.own != working && k.mayGo(s):
		k.tellOutside(s)
		k.decide(rendezvous.Event{Kind: rendezvous.Done}, 0)
	default:
		k.tellStay()
		k.count(s)
	}
}

// halter is a node that stops the job, and its note.
type halter struct {
	node coord.ID
	note
}

// compare puts the earliest failure first, and signals behind all failures; where that says
// nothing the nodes have an order, so that all of them name the same cause.
func (a halter) compare(b halter) int {
	switch {
	case a.Cause != nil && b.Cause == nil:
		return -1
	case a.Cause == nil && b.Cause != nil:
		return 1
	case a.Cause != nil && !a.Cause.Time.Equal(b.Cause.Time):
		return a.Cause.Time.Compare(b.Cause.Time)
	}
	return bytes.Compare(a.node[:], b.node[:])
}

// hearNotes acts on what other launchers have told all.
func (k *keeper) hearNotes(s *agent.Sight) {
	var stops []halter
	for id, p := range s.Peers { // in any order: only all of them together mean something
		n := parseNote(p.Note)
		k.ended = k.ended || n.Condition == finished
		if n.Condition == halting {
			stops = append(stops, halter{id, n})
		}
	}
	if len(stops) > 0 {
		n := slices.MinFunc(stops, halter.compare)
		k.decide(rendezvous.Event{Kind: rendezvous.Stop, Signal: n.Signal, Cause: n.Cause, Reason: n.Reason}, 0)
	}
}

func parseNote(text []byte) (n note) {
	if len(text) == 0 || json.Unmarshal(text, &n) != nil {
		return note{} // an agent without workers, or of another version
	}
	return n
}

// mayGo reports whether a node whose workers have ended is not needed any more: as a voter,
// it holds the job together.
func (k *keeper) mayGo(s *agent.Sight) bool {
	switch {
	case s.ID == coord.ID{}, // no rank of this node was in the job
		k.late && s.State.View == nil: // which it came to join
		return true
	case k.deaf:
		return k.now-max(k.since, k.at) >= farewell
	case k.own == finished && k.now-k.at >= k.exit:
		return true
	case s.State.View == nil:
		return false
	}
	for i := range s.State.View.Members {
		m := &s.State.View.Members[i]
		if m.ID == s.ID {
			continue
		}
		p := s.Peers[m.ID]
		if len(m.Ranks) > 0 || parseNote(p.Note).Condition == working && !p.Lost && !p.Left {
			return false
		}
	}
	return true
}

// count ends the job where too few nodes have ranks, or can have some again; or this node's
// part, where there are too many.
func (k *keeper) count(s *agent.Sight) {
	v := s.State.View
	if v == nil || !k.opened || k.ended || k.own == finished || v.Index(s.ID) < 0 {
		k.short = false
		return
	}
	n, before, first := k.tally(s)
	if !k.invited || before < k.max {
		k.full = 0
	} else if k.full == 0 {
		k.full = max(1, k.now)
	} else if k.now-k.full >= crowded {
		k.decide(rendezvous.Event{Kind: rendezvous.Stop, Reason: "the job has " + plural.Of(k.max, "node") + ", and takes no more"}, 1)
		return
	}
	if n >= k.min {
		k.short = false
		return
	}
	if !k.short {
		k.short, k.from = true, k.now
	}
	if k.now-k.from >= settle || len(v.Members) == 1 {
		k.halt(rendezvous.Event{Kind: rendezvous.Stop, Cause: first, Reason: plural.Of(n, "node") + " left of at least " + strconv.Itoa(k.min)}, 0)
	}
}

// tally counts the nodes that have ranks or will have some again, and those of them that were
// there before this one; and finds the first failure that was not made good, of nodes that
// have none.
func (k *keeper) tally(s *agent.Sight) (n, before int, first *rendezvous.Failure) {
	for i := range s.State.View.Members {
		m := &s.State.View.Members[i]
		p := s.Peers[m.ID]
		c := parseNote(p.Note)
		if m.ID == s.ID {
			before = n
			c = note{Condition: k.own, Cause: k.first}
		}
		if len(m.Ranks) > 0 || c.Condition == working && !p.Lost && !p.Left {
			n++
		}
		if c.Condition == spent && c.Cause != nil && (first == nil || c.Cause.Time.Before(first.Time)) {
			first = c.Cause
		}
	}
	return n, before, first
}
