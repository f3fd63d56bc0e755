package launcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// The scripts in testdata/supervisor are the supervisor's rules by example: an event
// a line, and what it has done. `go test -run Script -rewrite` writes the answers.
func TestSupervisorScript(t *testing.T) {
	datadriven.Walk(t, "testdata/supervisor", func(t *testing.T, path string) {
		var s *supervisor
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "job" {
				spec := Default()
				spec.ShutdownTimeout = 30 * time.Second
				d.ScanArgs(t, "workers", &spec.Workers)
				d.MaybeScanArgs(t, "live", &spec.Live)
				d.MaybeScanArgs(t, "restarts", &spec.MaxRestarts)
				s = newSupervisor(&spec, killBound)
				return describe(s, s.start())
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				out.WriteString(describe(s, s.step(parseEvent(t, s, strings.TrimSpace(line)))))
			}
			return out.String()
		})
	})
}

// parseEvent reads "exit LOCAL CODE", "die LOCAL SIGNAL", "round NUMBER RESTARTS",
// "group KIND [SIGNAL]", "early KIND" of the round after this one, "stopped REASON", "refused CODE TEXT", "signal N", "timer",
// "swept [PID]", and in a live job "pause LOCAL" is over, "deaf CODE".
func parseEvent(t *testing.T, s *supervisor, line string) event {
	t.Helper()
	f := strings.Fields(line)
	number := func(i int) int {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return n
	}
	switch f[0] {
	case "round":
		nodes := []rendezvous.Node{{LocalWorld: s.workers}}
		return event{kind: roundAgreed, round: rendezvous.Round{Number: number(1), Restarts: number(2), Nodes: nodes}}
	case "exit", "die":
		e := event{kind: workerEnded, local: number(1)}
		if code := number(2); code != 0 {
			e.failure = &rendezvous.Failure{Rank: number(1), LocalRank: number(1), PID: 100 + number(1), ExitCode: code, Time: time.Unix(1000, 0)}
			if f[0] == "die" {
				e.failure.ExitCode, e.failure.Signal = 0, code
			}
			if len(f) > 3 { // when its error file says that it failed
				e.failure.Time = time.Unix(int64(number(3)), 0)
			}
		}
		return e
	case "group":
		e := rendezvous.Event{Kind: rendezvous.EventKind(f[1]), Round: s.round.Number}
		if len(f) > 2 && f[2] == "cause" {
			e.Cause = &rendezvous.Failure{Node: 1, Rank: 7, PID: 700, ExitCode: number(3)}
		} else if len(f) > 2 {
			e.Signal = number(2)
		} else if len(s.failures) > 0 {
			e.Cause = &s.failures[0]
		}
		return event{kind: groupSpoke, group: e}
	case "early":
		return event{kind: groupSpoke, group: rendezvous.Event{Kind: rendezvous.EventKind(f[1]), Round: s.round.Number + 1}}
	case "stopped":
		return event{kind: joinStopped, group: rendezvous.Event{Kind: rendezvous.Stop, Reason: strings.Join(f[1:], " ")}}
	case "refused":
		return event{kind: joinFailed, verdict: verdict{code: number(1), text: strings.Join(f[2:], " ")}}
	case "pause":
		return event{kind: pauseOver, local: number(1)}
	case "deaf":
		return event{kind: groupSpoke, code: number(1), group: rendezvous.Event{Kind: rendezvous.Stop, Round: s.round.Number, Reason: "no majority"}}
	case "signal":
		return event{kind: signalCame, signal: syscall.Signal(number(1))}
	case "timer":
		return event{kind: timerFired, timer: s.timer}
	case "late-timer":
		return event{kind: timerFired, timer: s.timer - 1}
	case "swept":
		e := event{kind: swept}
		if len(f) > 1 {
			e.stuck = []int{number(1)}
		}
		return e
	}
	t.Fatalf("no such event: %s", line)
	return event{}
}

func describe(s *supervisor, effects []effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e.kind {
		case join:
			b.WriteString("join\n")
		case spawn:
			fmt.Fprintf(&b, "spawn %d workers, restart %d\n", s.workers, e.round.Restarts)
		case tell:
			fmt.Fprintf(&b, "tell all %s\n", signalName(int(e.signal)))
		case pass:
			fmt.Fprintf(&b, "pass on %s\n", signalName(int(e.signal)))
		case kill:
			b.WriteString("kill all\n")
		case startTimer:
			fmt.Fprintf(&b, "timer %v\n", e.after)
		case sweep:
			b.WriteString("sweep\n")
		case report:
			fmt.Fprintf(&b, "report round %d %s", e.outcome.Round, e.outcome.Kind)
			if e.outcome.Signal != 0 {
				fmt.Fprintf(&b, " %d", e.outcome.Signal)
			}
			b.WriteByte('\n')
		case again:
			fmt.Fprintf(&b, "local rank %d again in %v, restart %d\n", e.local, e.after, e.restarts)
		case respawn:
			fmt.Fprintf(&b, "start local rank %d, restart %d\n", e.local, e.restarts)
		case lost:
			fmt.Fprintf(&b, "local rank %d is lost\n", e.local)
		case finish:
			fmt.Fprintf(&b, "finish %d %q\n", e.verdict.code, e.verdict.text)
		}
	}
	if len(effects) == 0 {
		return "-\n"
	}
	return b.String()
}

// world runs a supervisor against a group of one node and workers that live and die
// as the dice say. It checks on the way what must hold in every history.
type world struct {
	t       *testing.T
	dice    *rand.Rand
	s       *supervisor
	group   rendezvous.Group
	budget  int
	alive   map[int]bool
	queue   []event // what the shell would deliver
	spawned int     // rounds
	dirty   bool    // a round's remains were not swept
	told    bool    // the workers were told to end
	first   *rendezvous.Failure
	signal  syscall.Signal
	events  []string
	done    *verdict
}

// Random histories: never two rounds at once, never more restarts than the budget,
// nobody dies unheard, the exit code follows the rule, and every history ends.
func TestSupervisorRandom(t *testing.T) {
	for seed := range uint64(3000) {
		w := &world{t: t, dice: rand.New(rand.NewPCG(seed, 1)), alive: map[int]bool{}}
		spec := Default()
		spec.Workers, w.budget = 1+w.dice.IntN(4), w.dice.IntN(3)
		group, err := rendezvous.Single(rendezvous.Config{RunID: "r", Endpoint: "localhost:-1", MaxRestarts: w.budget, Node: rendezvous.Node{LocalWorld: spec.Workers}})
		if err != nil {
			t.Fatal(err)
		}
		w.group, w.s = group, newSupervisor(&spec, killBound)
		w.run(seed)
		if err := group.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.events, "; "))
		}
	}
}

func (w *world) run(seed uint64) {
	w.carry(w.s.start())
	for steps := 0; w.done == nil; steps++ {
		if steps > 500 {
			w.t.Errorf("seed %d does not end", seed)
			return
		}
		e := w.pick()
		w.events = append(w.events, fmt.Sprintf("%d/%d", e.kind, e.local))
		w.carry(w.s.step(e))
	}
	w.check()
}

// pick takes something that may happen now.
func (w *world) pick() event {
	select {
	case e := <-w.group.Events():
		w.queue = append(w.queue, event{kind: groupSpoke, group: e})
	default:
	}
	switch n := w.dice.IntN(20); {
	case n < 8 && len(w.queue) > 0:
		e := w.queue[0]
		w.queue = w.queue[1:]
		return e
	case n < 15 && len(w.alive) > 0:
		for local := range w.s.workers {
			if w.alive[local] && w.dice.IntN(2) == 0 {
				return w.death(local)
			}
		}
	case n == 15:
		return event{kind: timerFired, timer: w.dice.IntN(w.s.timer + 1)}
	case n == 16 && w.dice.IntN(8) == 0:
		stop := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[w.dice.IntN(2)]
		if w.signal == 0 {
			w.signal = stop
		}
		return event{kind: signalCame, signal: stop}
	case n == 17:
		return event{kind: signalCame, signal: syscall.SIGUSR1}
	}
	return event{kind: timerFired, timer: w.s.timer}
}

func (w *world) death(local int) event {
	delete(w.alive, local)
	e := event{kind: workerEnded, local: local}
	if w.told || w.dice.IntN(3) == 0 {
		e.failure = &rendezvous.Failure{Rank: local, LocalRank: local, PID: 100 + local, Time: time.Unix(1000, 0)}
		if w.dice.IntN(2) == 0 {
			e.failure.Signal = 15
		} else {
			e.failure.ExitCode = 1 + w.dice.IntN(100)
		}
		if w.first == nil && !w.told {
			w.first = e.failure
		}
	}
	return e
}

func (w *world) carry(effects []effect) {
	for _, e := range effects {
		switch e.kind {
		case join:
			if w.dirty || len(w.alive) > 0 {
				w.t.Error("the next round was asked for before this one was over")
			}
			r, err := w.group.Next(context.Background())
			if err != nil {
				w.queue = append(w.queue, event{kind: joinFailed, verdict: verdict{code: 1, text: err.Error()}})
				continue
			}
			w.queue = append(w.queue, event{kind: roundAgreed, round: r})
		case spawn:
			w.spawn(e.round)
		case tell:
			w.told = true
		case kill:
			for local := range w.s.workers {
				if w.alive[local] {
					delete(w.alive, local)
					w.queue = append(w.queue, event{kind: workerEnded, local: local, failure: &rendezvous.Failure{LocalRank: local, Signal: 9, Time: time.Unix(1000, 0)}})
				}
			}
		case sweep:
			w.dirty = false
			if len(w.alive) > 0 {
				w.t.Error("swept while workers live and can be killed")
			}
			w.queue = append(w.queue, event{kind: swept})
		case report:
			if err := w.group.Report(context.Background(), e.outcome); err != nil {
				w.t.Error(err)
			}
		case finish:
			w.done = &e.verdict
		}
	}
}

func (w *world) spawn(r rendezvous.Round) {
	if len(w.alive) > 0 || w.dirty {
		w.t.Error("two rounds at once")
	}
	w.spawned++
	w.dirty, w.told, w.first = true, false, nil
	for local := range w.s.workers {
		w.alive[local] = true
	}
	if r.Restarts > w.budget {
		w.t.Errorf("restart %d of %d", r.Restarts, w.budget)
	}
}

func (w *world) check() {
	if len(w.alive) > 0 || w.dirty {
		w.t.Error("ended with something left")
	}
	if w.spawned > w.budget+1 {
		w.t.Errorf("%d rounds with a budget of %d restarts", w.spawned, w.budget)
	}
	var allowed []int
	if w.first != nil {
		code, _ := failureVerdict(w.first, "")
		allowed = append(allowed, code)
	}
	if w.signal != 0 {
		allowed = append(allowed, 128+int(w.signal))
	}
	if w.first == nil {
		allowed = append(allowed, 0)
	}
	if !slices.Contains(allowed, w.done.code) {
		w.t.Errorf("exit code %d, want one of %v (%s)", w.done.code, allowed, w.done.text)
	}
}

// The scripts must exist: an empty folder would pass.
func TestSupervisorScriptsThere(t *testing.T) {
	entries, err := os.ReadDir("testdata/supervisor")
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d scripts (%v)", len(entries), err)
	}
}
