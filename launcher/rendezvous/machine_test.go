package rendezvous

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// testRules are those of a job with torchrun's timeouts.
func testRules(job joining) rules {
	return rules{job: job, join: 600 * time.Second, lastCall: 30 * time.Second, exit: 300 * time.Second, lostAfter: 15 * time.Second, probe: 30 * time.Second}
}

// script plays one coordinator: each case of testdata/machine.txt says what happens,
// and what the machine then wants done.
type script struct {
	machine *machine
	now     time.Duration
	silent  map[memberID]bool // nodes that send no beats
	out     strings.Builder
}

func TestMachineScript(t *testing.T) {
	s := &script{}
	datadriven.RunTest(t, "testdata/machine.txt", func(t *testing.T, d *datadriven.TestData) string {
		s.out.Reset()
		if d.Cmd == "job" {
			s.begin(t, d)
		}
		for line := range strings.Lines(d.Input) {
			s.line(t, strings.Fields(line))
		}
		return s.out.String()
	})
}

// begin reads "job static|elastic [live] nodes=MIN[:MAX] restarts=N".
func (s *script) begin(t *testing.T, d *datadriven.TestData) {
	var nodes string
	j := joining{RunID: "job", NodeRank: -1, Static: d.HasArg("static"), Live: d.HasArg("live")}
	d.ScanArgs(t, "nodes", &nodes)
	d.ScanArgs(t, "restarts", &j.MaxRestarts)
	low, high, ranged := strings.Cut(nodes, ":")
	j.Min, _ = strconv.Atoi(low)
	j.Max = j.Min
	if ranged {
		j.Max, _ = strconv.Atoi(high)
	}
	s.machine, s.now = newMachine(testRules(j)), 0
	s.silent = map[memberID]bool{}
}

// line plays one line of a case: a verb, mostly a node's number, and the rest.
func (s *script) line(t *testing.T, words []string) {
	if words[0] == "after" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			t.Fatal(err)
		}
		s.pass(d)
		return
	}
	if words[0] == "pause" {
		d, err := time.ParseDuration(words[2])
		if err != nil {
			t.Fatal(err)
		}
		s.now += d
		s.step(input{})
		return
	}
	if words[0] == "join" {
		s.step(s.joining(words[1:]))
		return
	}
	id, err := strconv.Atoi(words[1])
	if err != nil {
		t.Fatal(err)
	}
	in := input{from: memberID(id)}
	rest := strings.Join(words[2:], " ")
	switch words[0] {
	case "silent":
		s.silent[in.from] = true
		return
	case "ready":
		in.message = &message{Type: words[0]}
	case "lose":
		in.lost = rest
	case "listening", "probed":
		in.message = &message{Type: words[0], Attempt: s.machine.attempt, Reason: rest}
	case "stale": // the answer to an earlier check
		in.message = &message{Type: typeProbed, Attempt: s.machine.attempt - 1}
	case "relay":
		to, _ := strconv.Atoi(rest)
		in.message = &message{Type: typeRelay, Relay: &relayed{Round: s.machine.number, To: to, Kind: "plan"}}
	default:
		in.message = &message{Type: typeOutcome, Outcome: &Outcome{Kind: OutcomeKind(words[0]), Round: s.machine.number}}
		switch n, _ := strconv.Atoi(rest); in.message.Outcome.Kind {
		case Failed:
			in.message.Outcome.Cause = &Failure{Rank: 7, ExitCode: n}
		case Signalled:
			in.message.Outcome.Signal = n
		}
	}
	s.step(in)
}

// joining reads "join HOST [rank=R] [local] [addr=A] [sees=A] [restarts=N]".
func (s *script) joining(words []string) input {
	j := s.machine.rules.job
	j.Node = Node{Host: words[0], PID: 1, LocalWorld: 1}
	j.Port = 1000 + int(s.machine.last)
	in := input{message: &message{Type: typeJoin, Join: &j}, sees: "10.0.0." + strconv.Itoa(int(s.machine.last)+1)}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		number, _ := strconv.Atoi(value)
		switch name {
		case "rank":
			j.NodeRank = number
		case "restarts":
			j.MaxRestarts = number
		case "local":
			in.local, in.sees = true, ""
		case "addr":
			j.Node.Addr = value
		case "sees":
			in.sees = value
		case "unlive":
			j.Live = false
		case "run":
			j.RunID = value
		}
	}
	return in
}

// pass lets time go by, with a beat of every node and a tick a heartbeat, and one at
// each deadline of the machine.
func (s *script) pass(d time.Duration) {
	end := s.now + d
	for s.now < end {
		s.now = min(end, s.now+5*time.Second)
		if at, ok := s.machine.wake(); ok && at < s.now && at > s.machine.now {
			s.now = at
		}
		for _, m := range slices.Clone(s.machine.members) {
			if !s.silent[m.id] {
				s.step(input{from: m.id, message: &message{Type: typeBeat}})
			}
		}
		s.step(input{})
	}
}

func (s *script) step(in input) {
	for _, e := range s.machine.step(s.now, in) {
		s.write(&e)
	}
}

func (s *script) write(e *effect) {
	at := ""
	if s.now > 0 {
		at = s.now.String() + " "
	}
	switch e.kind {
	case send:
		if e.message.Type != typeWelcome {
			_, _ = fmt.Fprintf(&s.out, "%sto %s: %s\n", at, strings.Trim(fmt.Sprint(e.to), "[]"), describeMessage(e.message))
		}
	case drop, cut:
		_, _ = fmt.Fprintf(&s.out, "%shang up on %d\n", at, e.to[0])
	case closeListener:
		_, _ = fmt.Fprintf(&s.out, "%sclose the listener\n", at)
	case finish:
		_, _ = fmt.Fprintf(&s.out, "%sthe job is over\n", at)
	}
}

func describeMessage(m *message) string {
	switch m.Type {
	case typeRound:
		var hosts []string
		for _, n := range m.Agreed.Nodes {
			hosts = append(hosts, n.Host)
		}
		return fmt.Sprintf("round %d of %s, restarts %d, master %q port %d", m.Agreed.Number, strings.Join(hosts, " "), m.Agreed.Restarts, m.Agreed.Addr, m.Agreed.Port)
	case typeProbe:
		return fmt.Sprintf("probe %q port %d", m.Agreed.Addr, m.Agreed.Port)
	case typeEvent:
		text := fmt.Sprintf("%s round %d", m.Event.Kind, m.Event.Round)
		if m.Event.Signal != 0 {
			text += fmt.Sprintf(" signal %d", m.Event.Signal)
		}
		if m.Event.Cause != nil {
			text += fmt.Sprintf(" cause rank %d", m.Event.Cause.Rank)
		}
		if m.Event.Reason != "" {
			text += ": " + m.Event.Reason
		}
		return text
	case typeRefused:
		return fmt.Sprintf("refused, retry %v: %s", m.Retry, m.Reason)
	case typeRelay:
		return fmt.Sprintf("%s from %d", m.Relay.Kind, m.Relay.From)
	}
	return m.Type
}

// seats makes nodes for assign, of which n is the number of the last.
func seats(n int) []*seat {
	list := make([]*seat, n)
	for i := range list {
		list[i] = &seat{id: memberID(i + 1), rank: -1, join: joining{NodeRank: -1, Node: Node{Host: fmt.Sprint("node", i), Boot: "b"}}}
	}
	return list
}

func hosts(seats []*seat) string {
	var names []string
	for _, s := range seats {
		names = append(names, s.join.Node.Host)
	}
	return strings.Join(names, " ")
}

func TestAssign(t *testing.T) {
	try := func(change func(list []*seat) []vacancy, want string) {
		t.Helper()
		list := seats(4)
		left := change(list)
		if got := hosts(assign(list, left)); got != want {
			t.Errorf("ranks %s, want %s", got, want)
		}
	}
	none := []vacancy(nil)
	try(func(s []*seat) []vacancy { slices.Reverse(s); return none }, "node0 node1 node2 node3")
	try(func(s []*seat) []vacancy { s[2].local = true; return none }, "node2 node0 node1 node3")
	// node10 comes after node2.
	try(func(s []*seat) []vacancy { s[0].join.Node.Host = "node10"; return none }, "node1 node2 node3 node10")
	// pytorch issue 182223: --node-rank 0 got rank 1. An asked rank is given, whoever
	// is older or has been here before.
	try(func(s []*seat) []vacancy { s[3].join.NodeRank, s[0].rank, s[1].local = 0, 0, true; return none }, "node3 node1 node0 node2")
	// A survivor keeps its rank; one whose rank is gone fills a hole.
	try(func(s []*seat) []vacancy { s[0].rank, s[1].rank, s[2].rank = 3, 7, 1; return none }, "node1 node2 node3 node0")
	// Elastic with asked ranks 0 to 7, of which four nodes are left: those that fit are
	// exact.
	try(func(s []*seat) []vacancy {
		for i, asked := range []int{6, 2, 0, 5} {
			s[i].join.NodeRank = asked
		}
		return none
	}, "node2 node3 node1 node0")
	// A node that comes back gets what it had.
	try(func(s []*seat) []vacancy {
		s[0].rank, s[1].rank, s[2].rank = 0, 1, 2
		s[2].rank = -1
		return []vacancy{{"node2\x00b", 3}, {"other\x00b", 2}}
	}, "node0 node1 node3 node2")
}

// pytorch pull 124982: the ranks of 4000 hosts took 373 s. Here a whole round of 4000
// nodes, joins included, takes less than a second.
func TestManyNodes(t *testing.T) {
	const n = 4000
	m := newMachine(testRules(joining{RunID: "job", NodeRank: -1, Min: n, Max: n}))
	began := time.Now()
	for i := range n {
		j := m.rules.job
		j.Node = Node{Host: fmt.Sprint("host", (i*7919)%n), LocalWorld: 8}
		m.step(0, input{message: &message{Type: typeJoin, Join: &j}, sees: "10.0.0.1"})
	}
	ids := make([]memberID, n)
	var effects []effect
	for i := range ids {
		ids[i] = memberID(i + 1)
		effects = m.step(0, input{from: ids[i], message: &message{Type: typeReady}})
	}
	if len(effects) != 1 || effects[0].message.Type != typeListen {
		t.Fatalf("effects %+v", effects)
	}
	m.step(0, input{from: effects[0].to[0], message: &message{Type: typeListening, Attempt: 1}})
	for _, id := range ids {
		effects = m.step(0, input{from: id, message: &message{Type: typeProbed, Attempt: 1}})
	}
	if len(effects) != 1 || effects[0].message.Type != typeRound || len(effects[0].to) != n {
		t.Fatalf("effects %+v", effects)
	}
	d := time.Since(began)
	t.Logf("a round of %d nodes took %v", n, d)
	if d > time.Second {
		t.Errorf("a round of %d nodes took %v", n, d)
	}
	for rank, node := range effects[0].message.Agreed.Nodes {
		if node.Host != fmt.Sprint("host", rank) {
			t.Fatalf("rank %d is %s", rank, node.Host)
		}
	}
	if text, err := frame(effects[0].message); err != nil || len(text) > maxMessage/4 {
		t.Errorf("the round takes %d bytes: %v", len(text), err)
	}
}

// What a node says of itself is checked before others start workers by it.
func TestImpossibleNodes(t *testing.T) {
	job := joining{RunID: "j", Min: 2, Max: 2, NodeRank: -1}
	for _, change := range []func(j *joining){
		func(j *joining) { j.Node.LocalWorld = -1 }, func(j *joining) { j.Node.LocalWorld = 1 << 40 },
		func(j *joining) { j.Port = -1 }, func(j *joining) { j.Port = 65536 },
	} {
		m, j := newMachine(testRules(job)), job
		change(&j)
		effects := m.step(0, input{message: &message{Type: typeJoin, Join: &j}})
		if len(effects) != 2 || effects[0].message.Type != typeRefused || effects[1].kind != drop {
			t.Errorf("%+v: %+v", j, effects)
		}
	}
}
