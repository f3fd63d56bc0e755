package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/metrics/page"
)

var (
	roundCount = flag.Int("rounds", 10, "rounds of TestElasticRounds")
	roundSeed  = flag.Int("round", -1, "run this round of TestElasticRounds alone")
	relayed    = flag.Bool("relays", false, "have relays between the agents of TestElasticRounds also where there are network namespaces")
	roundsAt   = flag.Int("rounds-at-once", 5, "rounds that run at a time")
)

// asWorld says that the test binary has a network of its own: "probe" tries whether it
// could.
const asWorld = "HEADRACE_TEST_WORLD"

// round is a small async job of real processes, in which things go wrong.
type round struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	ctx     context.Context
	dir     string
	lan     *lan
	profile string
	nodes   []*node
	n       int64
	epochs  int64
	pace    time.Duration
	lie     string
	over    chan struct{} // closed when all ranks have ended
	began   time.Time

	mu     sync.Mutex
	story  []string
	failed []error
}

// roundLimit bounds a round: what takes longer hangs.
const roundLimit = 3 * time.Minute

func newRound(t *testing.T, seed uint64, nodes, ranks int, apart bool) *round {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundLimit)
	r := &round{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 77)), ctx: ctx, dir: t.TempDir(), profile: "fast",
		n: int64(300 * nodes * ranks), epochs: 2, pace: 10 * time.Millisecond, over: make(chan struct{}), began: time.Now(),
	}
	if err := os.WriteFile(filepath.Join(r.dir, "key"), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := newLan(nodes, apart)
	t.Cleanup(func() {
		cancel()
		r.killAll()
		l.end()
	})
	r.lan = l
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		r.nodes = append(r.nodes, &node{r: r, place: i, up: make(chan struct{}), ranks: make([]*process, ranks)})
	}
	return r
}

func (r *round) world() (n int) {
	for _, k := range r.nodes {
		n += len(k.ranks)
	}
	return n
}

// command is this test binary, as a process of the round.
func (r *round) command(args ...string) *exec.Cmd {
	self, _ := os.Executable()
	return exec.Command(self, args...)
}

func (r *round) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.story = append(r.story, fmt.Sprintf("%7.2f s  ", time.Since(r.began).Seconds())+fmt.Sprintf(format, args...))
}

func (r *round) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, err)
}

// begin starts agents and ranks. All ranks have ended when over is closed.
func (r *round) begin() {
	var ranks sync.WaitGroup
	for _, n := range r.nodes {
		ranks.Go(func() {
			if err := n.startAgent(); err != nil {
				r.fail(err)
			}
		})
		for local := range n.ranks {
			ranks.Go(func() {
				if err := n.keep(local); err != nil {
					r.fail(fmt.Errorf("rank %d of node %d: %w", local, n.place, err))
				}
			})
		}
	}
	go func() {
		ranks.Wait()
		close(r.over)
	}()
}

// killAll ends what is left of the round's processes.
func (r *round) killAll() {
	for _, n := range r.nodes {
		n.mu.Lock()
		list := append(slices.Clone(n.ranks), n.agent)
		n.mu.Unlock()
		for _, p := range list {
			if p != nil {
				p.signal(syscall.SIGKILL)
				<-p.ended
			}
		}
	}
	if len(r.nodes) > 0 && r.nodes[0].births > 0 {
		<-r.over
	}
}

// until asks again and again; false: the job is over before.
func (r *round) until(what string, yes func() bool) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-r.over:
			return false
		case <-r.ctx.Done():
			r.fail(fmt.Errorf("it hangs: %s", what))
			return false
		case <-tick.C:
		}
	}
	return true
}

// done is how much is done, from 0 to 1.
func (r *round) done() (most float64) {
	for _, n := range r.nodes {
		if s, ok := n.view(); n.isUp() && ok && most == 0 {
			most = (float64(s.Progress.Epoch)*float64(r.n) + float64(s.Coverage.Done)) / float64(r.n*r.epochs)
		}
	}
	return most
}

// whole reports whether all nodes are in one view, and vote.
func (r *round) whole() bool {
	var number uint64
	for i, n := range r.nodes {
		if !n.isUp() {
			return false
		}
		s, ok := n.view()
		if !ok || !s.Agent.Member || !s.Agent.Voter || s.Status == page.Cut || len(s.Nodes) != len(r.nodes) || len(s.View.Voters) != len(r.nodes) || i > 0 && s.View.Number != number {
			return false
		}
		number = s.View.Number
	}
	return true
}

// fault is something that goes wrong.
type fault struct {
	at   float64 // share of the job that is done
	kind string
	node int
	also int           // another node, or a rank
	hold time.Duration // how long
}

func (f fault) String() string {
	return fmt.Sprintf("%s of node %d (%d) for %v, at %.0f %%", f.kind, f.node, f.also, f.hold, 100*f.at)
}

// strikes are the faults that concern a node, of which a minority may be at a time.
var strikes = []string{"kill", "stop", "leave", "cut", "split", "deaf"}

// schedule draws the faults of a round.
func (r *round) schedule() (list []fault) {
	kinds := append(slices.Clone(strikes), "rank", "rank", "pause")
	for range 2 + r.rand.IntN(3) {
		f := fault{
			at: 0.05 + 0.8*r.rand.Float64(), kind: kinds[r.rand.IntN(len(kinds))], node: r.rand.IntN(len(r.nodes)), also: r.rand.IntN(len(r.nodes)),
			hold: time.Duration(100+r.rand.IntN(6000)) * time.Millisecond,
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b fault) int { return int(1000 * (a.at - b.at)) })
	return list
}

// suffer does what is scheduled. A minority of the nodes is struck at a time, until all is
// well with them again.
func (r *round) suffer(list []fault) {
	struck := make(chan struct{}, (len(r.nodes)-1)/2)
	var under sync.WaitGroup
	defer under.Wait()
	if !r.until("the job begins", func() bool { return r.whole() && r.done() > 0 }) {
		return
	}
	r.say("all are in")
	var busy sync.Mutex
	ill := map[int]bool{}
	for _, f := range list {
		if !r.until(fmt.Sprintf("to be %.0f %% done", 100*f.at), func() bool { return r.done() >= f.at }) {
			return
		}
		if !slices.Contains(strikes, f.kind) {
			under.Go(func() { r.rankFault(f) })
			continue
		}
		select {
		case struck <- struct{}{}:
		case <-r.over:
			return
		case <-r.ctx.Done():
			return
		}
		busy.Lock()
		for ill[f.node] {
			f.node = (f.node + 1) % len(r.nodes)
		}
		ill[f.node] = true
		busy.Unlock()
		under.Go(func() {
			r.say("%v", f)
			if err := r.strike(f); err != nil {
				r.fail(err)
			}
			r.say("%s of node %d ends", f.kind, f.node)
			if r.until("all are in one view and vote, after "+f.String(), r.whole) {
				r.say("all are well")
			}
			busy.Lock()
			delete(ill, f.node)
			busy.Unlock()
			<-struck
		})
	}
}

// hold waits for a time, less if the job is over.
func (r *round) hold(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.over:
	case <-r.ctx.Done():
	}
}

// strike does a fault of a node and undoes it.
func (r *round) strike(f fault) error {
	n := r.nodes[f.node]
	switch f.kind {
	case "kill", "leave":
		s := syscall.SIGKILL
		if f.kind == "leave" {
			s = syscall.SIGTERM
		}
		n.endAgent(s)
		r.hold(f.hold)
		return n.startAgent()
	case "stop":
		n.mu.Lock()
		p := n.agent
		n.mu.Unlock()
		p.signal(syscall.SIGSTOP)
		r.hold(f.hold)
		p.signal(syscall.SIGCONT)
	case "cut":
		if err := r.lan.cut(f.node); err != nil {
			return err
		}
		r.hold(f.hold)
		return r.lan.heal(f.node)
	case "split":
		if err := r.lan.split(f.node); err != nil {
			return err
		}
		r.hold(f.hold)
		return r.lan.heal(f.node)
	case "deaf":
		if f.also == f.node {
			f.also = (f.node + 1) % len(r.nodes)
		}
		if err := r.lan.deafen(f.node, f.also); err != nil {
			return err
		}
		r.hold(f.hold)
		return r.lan.hear(f.node, f.also)
	}
	return nil
}

// rankFault kills a rank, or stops it for a while.
func (r *round) rankFault(f fault) {
	n := r.nodes[f.node]
	p := n.rank(f.also % len(n.ranks))
	if p == nil {
		return
	}
	r.say("%v", f)
	if f.kind == "rank" {
		p.signal(syscall.SIGKILL)
		return
	}
	p.signal(syscall.SIGSTOP)
	r.hold(f.hold)
	p.signal(syscall.SIGCONT)
}

// finish waits for the end of the job, ends the agents, and gives what is wrong.
func (r *round) finish() (wrong []string) {
	select {
	case <-r.over:
	case <-r.ctx.Done():
		r.fail(errors.New("it hangs: not all ranks have come to the end of the job"))
		r.dump()
	}
	for _, n := range r.nodes {
		if n.isUp() {
			n.endAgent(syscall.SIGTERM)
		}
	}
	wrong = audited(r.dir, r.n, r.epochs)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.failed {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

// dump has all processes that are left say where they are.
func (r *round) dump() {
	for _, n := range r.nodes {
		n.mu.Lock()
		for _, p := range append(slices.Clone(n.ranks), n.agent) {
			if p == nil {
				continue
			}
			p.signal(syscall.SIGCONT)
			p.signal(syscall.SIGQUIT)
			select {
			case <-p.ended:
			case <-time.After(5 * time.Second):
			}
		}
		n.mu.Unlock()
	}
}

// logs are the ends of all that the processes said.
func (r *round) logs() string {
	const most = 6000
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if len(text) > most {
			text = text[len(text)-most:]
		}
		_, _ = fmt.Fprintf(&all, "--- %s\n%s\n", filepath.Base(name), text)
	}
	return all.String()
}

func (r *round) explain(wrong []string) {
	if len(wrong) == 0 {
		return
	}
	r.t.Errorf("round %d, %d nodes of %d ranks; again by\n\tgo test ./cmd/headrace -run TestElasticRounds -round %d\n%s\n%s\n%s",
		r.seed, len(r.nodes), len(r.nodes[0].ranks), r.seed, strings.Join(wrong, "\n"), strings.Join(r.story, "\n"), r.logs())
}

// In rounds of a small async job, whose agents and ranks are processes, some of them are
// killed, stopped, started again and cut off from others, as a seed says: each position
// is done and counted exactly once, and all come to the end. Each rank keeps an account of
// its own (see audit).
func TestElasticRounds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: rounds take ten seconds each")
	}
	switch apart, why := ownNetworks(); {
	case os.Getenv(asWorld) != "":
		rounds(t, true)
	case *relayed:
		rounds(t, false)
	case apart:
		inWorld(t)
	default:
		t.Logf("links are relays: network namespaces cannot be made here: %s", why)
		rounds(t, false)
	}
}

func rounds(t *testing.T, apart bool) {
	first, count := 0, *roundCount
	if *roundSeed >= 0 {
		first, count = *roundSeed, 1
	}
	room := make(chan struct{}, max(1, *roundsAt))
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			room <- struct{}{}
			t.Cleanup(func() { <-room }) // after the network has gone
			draw := rand.New(rand.NewPCG(uint64(seed), 1))
			r := newRound(t, uint64(seed), 3+2*draw.IntN(2), 1+draw.IntN(2), apart)
			faults := r.schedule()
			r.began = time.Now()
			r.begin()
			r.suffer(faults)
			r.explain(r.finish())
			t.Logf("%d nodes of %d ranks, %v, %d faults:\n%s", len(r.nodes), len(r.nodes[0].ranks), time.Since(r.began), len(faults), strings.Join(r.story, "\n"))
		})
	}
}

// ownNetworks reports whether this process can have children with networks of their own.
func ownNetworks() (ok bool, why string) {
	out, err := worldCommand("probe").CombinedOutput()
	return err == nil, fmt.Sprint(strings.TrimSpace(string(out)), " ", err)
}

// worldCommand is this test binary in a user and network namespace.
func worldCommand(what string, args ...string) *exec.Cmd {
	self, _ := os.Executable()
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asWorld+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// probeWorld tries to make a network as the rounds do.
func probeWorld() int {
	l, err := newLan(2, true)
	if err == nil {
		err = errors.Join(l.cut(1), l.split(1), l.heal(1), l.deafen(0, 1), l.hear(0, 1))
	}
	if l != nil {
		l.end()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// inWorld runs the calling test in a network of its own.
func inWorld(t *testing.T) {
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", fmt.Sprint("-rounds=", *roundCount), fmt.Sprint("-round=", *roundSeed), fmt.Sprint("-rounds-at-once=", *roundsAt), fmt.Sprint("-test.parallel=", *roundsAt)}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprint("-test.timeout=", time.Until(deadline)-5*time.Second))
	}
	cmd := worldCommand("rounds", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
		return
	}
	t.Logf("with networks of their own:\n%s", out)
}
