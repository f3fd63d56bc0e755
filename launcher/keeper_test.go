package launcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

// outlook is what the agent of node 1 knows, and the keeper that is told of it.
type outlook struct {
	t *testing.T
	*keeper
	sight agent.Sight
	now   time.Duration
	said  []string
	told  note
	event *rendezvous.Event
	code  int
}

func memberID(n int) coord.ID { return coord.ID{byte(n)} }

// newOutlook is a job that has begun, of nodes 1 to n with two ranks each.
func newOutlook(t *testing.T, n int, change func(*Spec)) *outlook {
	s := Default()
	s.Live, s.MinNodes, s.MaxNodes = true, 2, 4
	if change != nil {
		change(&s)
	}
	o := &outlook{t: t, keeper: newKeeper(&s)}
	o.sight = agent.Sight{ID: memberID(1), Peers: map[coord.ID]agent.Peer{}}
	o.sight.State.Open = true
	var ranks [][]int
	for range n {
		ranks = append(ranks, []int{0, 1})
	}
	o.view(ranks...)
	return o
}

// view makes the next view, of nodes 1 and so on with these ranks; nil is no member.
func (o *outlook) view(ranks ...[]int) {
	v := &coord.View{}
	if before := o.sight.State.View; before != nil {
		v.Number = before.Number + 1
	}
	for i, r := range ranks {
		if r != nil {
			v.Members = append(v.Members, coord.Member{ID: memberID(i + 1), Address: "10.0.0." + string(rune('1'+i)) + ":7", Name: "host" + string(rune('1'+i)), Ranks: r})
			v.Voters = append(v.Voters, memberID(i+1))
		}
	}
	o.sight.State.View = v
	o.pass(0)
}

// peer has node n tell something.
func (o *outlook) peer(n int, p agent.Peer, text string) {
	p.Note = []byte(text)
	o.sight.Peers[memberID(n)] = p
}

// pass lets time pass.
func (o *outlook) pass(d time.Duration) {
	o.now += d
	o.look(o.now, &o.sight)
	out := o.take()
	o.said = append(o.said, out.lines...)
	if out.event != nil {
		if o.event != nil {
			o.t.Error("a second event")
		}
		o.event, o.code = out.event, out.code
	}
	if out.note != nil {
		o.told = parseNote(out.note)
	}
}

func (o *outlook) last() string {
	if len(o.said) == 0 {
		return ""
	}
	return o.said[len(o.said)-1]
}

// undecided checks that the job goes on here.
func (o *outlook) undecided() {
	o.t.Helper()
	if o.event != nil {
		o.t.Fatalf("%+v, code %d", *o.event, o.code)
	}
}

func (o *outlook) decidedAs(kind rendezvous.EventKind, code int, reason string) {
	o.t.Helper()
	if o.event == nil || o.event.Kind != kind || o.code != code || !strings.Contains(o.event.Reason, reason) {
		o.t.Fatalf("%+v, code %d; want %s %d %q", o.event, o.code, kind, code, reason)
	}
}

func fault(local int, at int64) *rendezvous.Failure {
	return &rendezvous.Failure{LocalRank: local, PID: 7, Signal: 9, Host: strings.Repeat("h", 300), Time: time.Unix(at, 0), Error: []byte(strings.Repeat(" ", 9000))}
}

// One line for each view says who has come and gone, and why.
func TestKeeperTellsViews(t *testing.T) {
	o := newOutlook(t, 3, func(s *Spec) { s.MinNodes = 1 })
	f := func(want string) {
		t.Helper()
		if o.last() != want {
			t.Errorf("%q, want %q", o.last(), want)
		}
	}
	f("view 0: 6 ranks on 3 nodes")
	o.view([]int{0, 1}, []int{1}, []int{0, 1})
	f("view 1: 5 ranks on 3 nodes, gone: 1 rank of host2")
	o.peer(3, agent.Peer{Lost: true}, `{"s":"run"}`)
	o.view([]int{0, 1}, []int{0, 1}, nil, []int{})
	f("view 2: 4 ranks on 2 nodes, 1 without ranks, left: host3 (its launcher was lost), came: host4, new: 1 rank of host2")
	o.peer(2, agent.Peer{Left: true}, `{"s":"left"}`)
	o.view([]int{0, 1}, nil, nil, []int{})
	f("view 3: 2 ranks on 1 node, 1 without ranks, left: host2 (it was told to end)")
	n := len(o.said)
	o.pass(time.Hour)
	o.sight.Voters = 3
	o.pass(0)
	o.pass(0)
	if f("3 agents decide: the job outlives the loss of any 1"); len(o.said) != n+1 {
		t.Errorf("said again: %q", o.said[n:])
	}
}

// Without a majority the reason is told once, and once more when it is over. If it lasts the
// job stops here, with a code of its own.
func TestKeeperDeaf(t *testing.T) {
	o := newOutlook(t, 2, func(s *Spec) { s.LiveTimeout = time.Minute })
	n := len(o.said)
	o.sight.Waiting, o.sight.Deaf = "nobody answers", true
	o.pass(time.Second)
	o.pass(59 * time.Second)
	if len(o.said) != n+1 || o.last() != "nobody answers; this node stops in 1m0s if that lasts" {
		t.Errorf("%q", o.said[n:])
	}
	o.sight.Waiting, o.sight.Deaf = "", false
	o.pass(0)
	if o.last() != "the agents decide again" {
		t.Errorf("%q", o.last())
	}
	o.sight.Waiting, o.sight.Deaf = "nobody answers", true
	o.pass(30 * time.Second)
	o.pass(59 * time.Second)
	o.undecided()
	o.pass(time.Second)
	o.decidedAs(rendezvous.Stop, codeDeaf, "stopped safely after 1m0s: nobody answers; from three agents on")
	// A job that waits for the trainer, or for ranks, is not deaf.
	o = newOutlook(t, 2, nil)
	o.sight.Waiting = "waits"
	o.pass(time.Hour)
	o.pass(time.Hour)
	o.undecided()
}

// A node whose workers have ended stays while others work, or will: as a voter it holds the
// job together.
func TestKeeperStays(t *testing.T) {
	o := newOutlook(t, 3, nil)
	o.finish(rendezvous.Outcome{Kind: rendezvous.Succeeded})
	o.peer(2, agent.Peer{}, `{"s":"run"}`)
	o.view([]int{}, []int{}, []int{0}) // node 2 starts its worker again
	o.undecided()
	if o.told.Condition != finished {
		t.Errorf("the others are told %+v", o.told)
	}
	o.view([]int{}, []int{}, []int{})
	o.undecided()
	o.peer(2, agent.Peer{}, `{"s":"spent"}`)
	o.pass(0)
	o.decidedAs(rendezvous.Done, 0, "")

	// It does not wait for ever, nor for a majority that is gone.
	for _, change := range []func(*outlook){func(o *outlook) { o.pass(300 * time.Second) }, func(o *outlook) {
		o.sight.Waiting, o.sight.Deaf = "deaf", true
		o.pass(time.Second)
		o.pass(farewell)
	}, func(o *outlook) {
		o.peer(2, agent.Peer{Lost: true}, `{"s":"run"}`)
		o.view([]int{}, []int{})
	}} {
		o := newOutlook(t, 2, nil)
		o.finish(rendezvous.Outcome{Kind: rendezvous.Succeeded})
		o.pass(0)
		o.undecided()
		change(o)
		o.decidedAs(rendezvous.Done, 0, "")
	}
	// Workers that never were in the job do not keep a node.
	o = newOutlook(t, 2, nil)
	o.sight = agent.Sight{}
	o.finish(rendezvous.Outcome{Kind: rendezvous.Succeeded})
	o.pass(0)
	o.decidedAs(rendezvous.Done, 0, "")
}

// Nor does a job that was never found, which may be why they failed: a node that comes by an
// agent which is there no more ends with them.
func TestKeeperOutside(t *testing.T) {
	for name, c := range map[string]struct {
		kind rendezvous.OutcomeKind
		late bool
		said string
	}{
		"failed":       {rendezvous.Failed, true, "this node was never in the job: nobody has answered"},
		"done":         {rendezvous.Succeeded, true, ""},
		"at the begin": {rendezvous.Failed, false, ""},
	} {
		o := newOutlook(t, 2, nil)
		o.keeper = newKeeper(&Spec{LiveContacts: []string{"localhost:1"}, MinNodes: 1, MaxNodes: 2})
		o.said, o.late = nil, c.late
		o.sight.State.View, o.sight.State.Open, o.sight.Waiting = nil, false, "nobody has answered"
		o.pass(0)
		o.undecided()
		o.finish(rendezvous.Outcome{Kind: c.kind})
		o.pass(0)
		if !c.late { // the others may still come
			o.undecided()
		} else {
			o.decidedAs(rendezvous.Done, 0, "")
		}
		if o.last() != c.said {
			t.Errorf("%s: said %q, want %q", name, o.last(), c.said)
		}
	}
}

// Too few nodes with ranks end the job, with the first failure that was not made good, on
// all nodes.
func TestKeeperCountsNodes(t *testing.T) {
	o := newOutlook(t, 3, nil)
	o.peer(2, agent.Peer{}, `{"s":"run"}`)
	o.peer(3, agent.Peer{}, `{"s":"spent","c":{"pid":5,"signal":9,"time":"1970-01-01T00:00:05Z"}}`)
	o.view([]int{0, 1}, []int{}, []int{})
	o.pass(time.Hour)
	o.undecided() // node 2 will have ranks again
	o.peer(2, agent.Peer{}, `{"s":"spent","c":{"pid":4,"signal":9,"time":"1970-01-01T00:00:04Z"}}`)
	o.pass(0)
	o.pass(settle - 1)
	o.undecided()
	o.pass(1)
	o.decidedAs(rendezvous.Stop, 0, "1 node left of at least 2")
	if o.event.Cause == nil || o.event.Cause.PID != 4 || o.told.Condition != halting || o.told.Cause.PID != 4 {
		t.Errorf("cause %+v, told %+v", o.event.Cause, o.told)
	}
	// The others hear it.
	other := newOutlook(t, 3, nil)
	other.peer(1, agent.Peer{}, `{"s":"stop","r":"why","c":{"pid":4}}`)
	other.pass(0)
	if other.decidedAs(rendezvous.Stop, 0, "why"); other.event.Cause.PID != 4 {
		t.Errorf("%+v", other.event)
	}
	// Once a node has ended well the job is about to be done, and nobody is counted.
	o = newOutlook(t, 3, nil)
	o.peer(2, agent.Peer{}, `{"s":"done"}`)
	o.peer(3, agent.Peer{}, `{"s":"spent"}`)
	o.view([]int{0, 1}, []int{}, []int{})
	o.pass(settle)
	o.pass(settle)
	o.undecided()
	// Witnesses are no nodes with ranks.
	o = newOutlook(t, 1, nil)
	o.view([]int{0, 1}, []int{}, []int{})
	o.pass(settle)
	o.decidedAs(rendezvous.Stop, 0, "1 node left of at least 2")
}

// Several nodes may stop the job at once. All others name the same cause, and end with the
// same code: the earliest failure, else the signal of the first node in the order of their
// names. The notes are in a map, so one try would prove nothing.
func TestKeeperNamesOneCause(t *testing.T) {
	const (
		early = `{"s":"stop","c":{"pid":4,"time":"1970-01-01T00:00:04Z"}}`
		late  = `{"s":"stop","c":{"pid":5,"time":"1970-01-01T00:00:05Z"}}`
		equal = `{"s":"stop","c":{"pid":6,"time":"1970-01-01T00:00:04Z"}}`
	)
	for _, c := range []struct {
		notes       []string // of nodes 2 and on
		pid, signal int
	}{
		{[]string{`{"s":"stop","n":2}`, `{"s":"stop","n":3}`}, 0, 2},
		{[]string{`{"s":"stop","n":3}`, `{"s":"stop","n":2}`}, 0, 3},
		{[]string{late, early}, 4, 0},
		{[]string{equal, early, late}, 6, 0},
		{[]string{`{"s":"stop","n":2}`, late}, 5, 0},
	} {
		for range 64 {
			o := newOutlook(t, 4, nil)
			for i, text := range c.notes {
				o.peer(i+2, agent.Peer{}, text)
			}
			o.pass(0)
			o.decidedAs(rendezvous.Stop, 0, "")
			if f := o.event.Cause; o.event.Signal != c.signal || (f != nil) != (c.pid != 0) || f != nil && f.PID != c.pid {
				t.Fatalf("%q: signal %d, cause %+v; want signal %d, pid %d", c.notes, o.event.Signal, f, c.signal, c.pid)
			}
		}
	}
}

// A job that cannot begin any more ends: a worker or a node that it waits for is lost.
func TestKeeperBeforeTheBegin(t *testing.T) {
	o := newOutlook(t, 2, nil)
	o.opened, o.sight.State.Open = false, false
	o.lose(fault(1, 3))
	if out := o.take(); out.event == nil || out.event.Cause.LocalRank != 1 || out.outcome == nil || out.outcome.Kind != rendezvous.Failed || len(out.note) > agent.MaxNote {
		t.Errorf("%+v", out)
	}
	o = newOutlook(t, 2, nil)
	o.opened, o.sight.State.Open = false, false
	o.misses("node 2 was lost")
	o.pass(0)
	o.decidedAs(rendezvous.Stop, 1, "node 2 was lost, before the job had begun")
	// Later neither does.
	o = newOutlook(t, 3, nil)
	o.lose(fault(1, 3))
	o.misses("node 2 was lost")
	o.hears(rendezvous.Event{Kind: rendezvous.Stop, Reason: "the rendezvous is lost"})
	o.pass(time.Hour)
	o.undecided()
	if o.told.Condition != working || o.told.Cause == nil || !strings.HasSuffix(o.last(), "--live-contact 10.0.0.1:7,10.0.0.2:7,10.0.0.3:7") {
		t.Errorf("told %+v, said %q", o.told, o.last())
	}
	// But a stop that it has to tell is one.
	o.hears(rendezvous.Event{Kind: rendezvous.Stop, Signal: 2})
	o.pass(0)
	if o.decidedAs(rendezvous.Stop, 0, ""); o.event.Signal != 2 {
		t.Errorf("%+v", o.event)
	}
}

// A node that came past the rendezvous goes where the job is full, and stays full.
func TestKeeperFull(t *testing.T) {
	invite := func(s *Spec) { s.LiveContacts = []string{"localhost:1"} }
	o := newOutlook(t, 5, invite)
	o.sight.ID = memberID(5)
	o.pass(0)
	o.pass(crowded - 1)
	o.undecided()
	o.pass(2)
	o.decidedAs(rendezvous.Stop, 1, "the job has 4 nodes, and takes no more")
	o = newOutlook(t, 5, invite)
	o.sight.ID = memberID(4) // it was the fourth
	o.pass(crowded)
	o.pass(crowded)
	o.undecided()
}

// Ctrl-C is told to the others; SIGTERM is of this node alone.
func TestKeeperSignals(t *testing.T) {
	o := newOutlook(t, 2, nil)
	o.signalled(2, true)
	out := o.take()
	if n := parseNote(out.note); n.Condition != halting || n.Signal != 2 || out.outcome == nil {
		t.Errorf("%+v", out)
	}
	o = newOutlook(t, 2, nil)
	o.signalled(15, false)
	out = o.take()
	if n := parseNote(out.note); n.Condition != leaving || out.outcome != nil {
		t.Errorf("%+v", out)
	}
}

// HEADRACE_KEY_FILE is wanted as soon as another host is meant.
func TestLiveNeedsAKey(t *testing.T) {
	for _, c := range []struct {
		args []string
		ok   bool
	}{
		{nil, true},
		{[]string{"--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost"}, true},
		{[]string{"--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "[::1]:5"}, true},
		{[]string{"--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "host0"}, false},
		{[]string{"--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost", "--local-addr", "10.0.0.1"}, false},
		{[]string{"--live-contact", "10.0.0.1:7"}, false},
	} {
		args := append(append([]string{"--live"}, c.args...), "s")
		if _, err := Parse(args, environ{}.lookup); (err == nil) != c.ok || err != nil && !errors.Is(err, nd.ErrConfig) {
			t.Errorf("%q: %v", args, err)
		}
		if _, err := Parse(args, environ{"HEADRACE_KEY_FILE": "k"}.lookup); err != nil {
			t.Errorf("%q with a key: %v", args, err)
		}
	}
}
