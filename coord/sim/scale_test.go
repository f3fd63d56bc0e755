package sim

import (
	"os"
	"testing"
	"time"

	"github.com/headrace/headrace/coord"
)

// many is a job of many nodes, of which one is lost.
func many(nodes, ranks int, mode coord.Mode, profile Profile, who Target) Scenario {
	sc := Scenario{Seed: 7, Profile: profile, Rack: 16, Pace: 2 * time.Second, Duration: 5 * time.Second}
	sc.Job = coord.Job{Name: "job", Plan: "plan", Mode: mode, N: 1 << 20, Steps: 1 << 20, Voters: 7, Lease: 64, Ahead: 1 << 10, Reserve: 64}
	sc.Network = Network{Latency: 200 * time.Microsecond, Jitter: 600 * time.Microsecond}
	for range nodes {
		sc.Ranks = append(sc.Ranks, ranks)
	}
	sc.Actions = []Action{{At: 8 * time.Second, Kind: Kill, Who: who, For: 18 * time.Second}}
	return sc
}

// few is fewer of what takes long, where SOAK (make soak) is not set.
func few(all, few int) int {
	if os.Getenv("SOAK") != "" {
		return all
	}
	return few
}

// A node of 2048 (without SOAK of 512) is lost: the view without it is everywhere in time, and a change costs
// about two messages for each node. All messages between the loss and the last node's new
// view are counted that are not said by the clock alone (group.Send.Steady: heartbeats, who
// follows whom, reports and answers with nothing new); in a lockstep job the redo and its
// leases are among them.
func TestManyNodes(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("-short, -race: many nodes take long")
	}
	const voters = 7
	nodes := few(2048, 512)
	most := 5 * (3*voters + 2*nodes) / 4
	for _, c := range []struct {
		mode    coord.Mode
		profile Profile
		who     Target
		within  time.Duration
	}{
		{coord.Lockstep, Default, "follower", 18 * time.Second},
		{coord.Async, Fast, "leader", 6500 * time.Millisecond},
	} {
		sc := many(nodes, 8, c.mode, c.profile, c.who)
		if c.mode == coord.Async {
			sc.Pace = 0 // ranks that work change the log all the time, and what a loss costs cannot be told from that
		}
		begin := time.Now()
		r := Run(sc, Watch{})
		for _, v := range r.Violations {
			t.Error(v)
		}
		if len(r.Recovery) != 1 || r.Recovery[0] > c.within || r.Change[0] > most {
			t.Errorf("%v, %v, %s lost: views after %v, wanted within %v; %v messages, wanted at most %d", c.mode, c.profile, c.who, r.Recovery, c.within, r.Change, most)
		}
		t.Logf("%v, %v, %s lost: %v, %d messages of at most %d; %d messages in %v, %d of them steady, run in %v", c.mode, c.profile, c.who, r.Recovery, r.Change, most, r.Messages, r.Time, r.Messages-r.Caused, time.Since(begin))
	}
}

// A job of a long time, in which nodes come that are refused, and two of five come and go all
// the while: what the others keep is bounded by who there is (see bounded), and does not grow with
// the run.
func TestNothingGrows(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("-short, -race: a long job takes some seconds")
	}
	sc := many(5, 1, coord.Async, Fast, "1")
	sc.Pace, sc.Job.Epochs, sc.Job.N = time.Second, 0, 1<<10
	sc.Actions = nil
	const refused, calm = 4 * time.Minute, 6 * time.Minute // by then there is no view but the first
	for at := 5 * time.Second; at < refused; at += 4200 * time.Millisecond {
		sc.Actions = append(sc.Actions, Action{At: at, Kind: Alien, N: int(at/time.Millisecond) % 3})
	}
	length := time.Duration(few(60, 11)) * time.Minute
	for i, at := 0, calm; at < length; i, at = i+1, at+9*time.Second {
		sc.Actions = append(sc.Actions, Action{At: at, Kind: Kill, Who: node(3 + i%2), By: 2 * time.Second})
	}
	r := Run(sc, Watch{})
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Time < length || r.Views < 50 {
		t.Errorf("%+v", r)
	}
	t.Logf("%v, %d views, %d messages; at most %d entries of %d bytes, a snapshot of %d, %d bytes to send at once; %d others known", r.Time, r.Views, r.Messages, r.Entries, r.Log, r.Snapshot, r.Outbox, r.Known)
}

// A storm of joiners beside a member that stands still for a minute: what each agent keeps
// stays within bounds (see bounded and storm), and all come in.
func TestStorm(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("-short, -race: a storm of joiners takes some seconds")
	}
	sc := many(5, 2, coord.Async, Default, "1")
	sc.Pace = 3 * time.Second
	sc.Network.Loss = 0.02
	sc.Actions = []Action{
		{At: 4 * time.Second, Kind: Stop, Who: "2", For: time.Minute},
		{At: 5 * time.Second, Kind: Join, N: few(120, 60)},
		{At: 6 * time.Second, Kind: Join, N: few(80, 40)},
		{At: 7 * time.Second, Kind: Kill, Who: "leader"},
	}
	sc.Duration = 2 * time.Minute
	r := Run(sc, Watch{})
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Views < 3 || r.Entries == 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%d views, %d messages, at most %d entries kept, %v", r.Views, r.Messages, r.Entries, r.Time)
}
