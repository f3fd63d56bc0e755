package page

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Sample is a Snapshot as an agent that leads has it: so many nodes with so many ranks.
func Sample(mode string, nodes, each int) Snapshot {
	r := rand.New(rand.NewPCG(7, uint64(nodes)))
	at := time.Date(2026, 5, 4, 14, 2, 11, 0, time.UTC)
	began, since := at.Add(-3*time.Hour), at.Add(-4*time.Minute)
	s := Snapshot{
		Time:     at,
		Agent:    Agent{Name: "node000", Address: "10.0.0.1:7946", Version: "0.1.0", Began: began, Member: true, Voter: true, Leader: true},
		Job:      Job{Name: "run7", Mode: mode, Plan: "9c41d0b2a7e6f358", N: 4_000_000, Epochs: 10, Expect: nodes * each},
		View:     View{Number: 12, Since: &since, World: nodes * each, Index: 48211},
		Progress: Progress{Epoch: 3, Open: true}, Status: Running,
		Gossip: Gossip{Members: nodes}, Counters: Counters{Evicted: 2, LastSettle: 5.4, Dropped: map[string]int64{"queue": 3}},
		Events: []Event{{since.Add(-5 * time.Second), "lost", "node003 does not answer"}, {since, "view", fmt.Sprintf("view 12: %d nodes, %d ranks", nodes, nodes*each)}},
	}
	if mode == "lockstep" {
		s.Job.Steps = 4_000_000 / int64(8*nodes*each)
	}
	for i := range nodes {
		n := Node{ID: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()), Name: fmt.Sprintf("node%03d", i), Rack: fmt.Sprintf("r%02d", i/16), Address: fmt.Sprintf("10.0.%d.%d:7946", i/250, i%250+1), First: i * each, Voter: i%max(1, nodes/5) == 0 && i/max(1, nodes/5) < 5, Leader: i == 0}
		lag, silent := int64(r.IntN(3)), r.Float64()
		if mode == "lockstep" {
			n.Lag = &lag
		}
		n.Silent = &silent
		for k := range each {
			n.Ranks = append(n.Ranks, k)
		}
		if n.Voter {
			s.View.Voters = append(s.View.Voters, n.ID)
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Agent.ID, s.View.Leader = s.Nodes[0].ID, s.Nodes[0].ID
	fillRanks(&s, r)
	for i := range 120 {
		s.Rates.History = append(s.Rates.History, s.Rates.Samples*(1+.08*r.NormFloat64())*min(1, float64(i+10)/40))
	}
	return s
}

func fillRanks(s *Snapshot, r *rand.Rand) {
	world := int64(s.View.World)
	share := s.Job.N / world
	for i := range s.Nodes {
		for k := range s.Nodes[i].Ranks {
			rate := 118 * (1 + .06*r.NormFloat64())
			switch r.IntN(40) {
			case 0:
				rate *= .6
			case 1:
				rate *= 1.4
			}
			rank := Rank{Rank: len(s.Ranks), Node: i, Local: k, Rate: &rate}
			s.Rates.Samples += rate
			if s.Job.Mode == "async" {
				start := int64(len(s.Ranks)) * share
				done := int64(float64(share) * (.45 + .3*r.Float64()))
				left := share - done
				rank.Left, rank.Lane = &left, []Span{{start + done, start + share}}
				s.Coverage.Spans = append(s.Coverage.Spans, Span{start, start + done})
				s.Coverage.Done += done
			}
			s.Ranks = append(s.Ranks, rank)
		}
	}
	s.Coverage.Of = s.Job.N
	if s.Job.Mode == "lockstep" {
		step := s.Job.Steps * 62 / 100
		done := step * s.Job.N / s.Job.Steps
		s.Progress.Step, s.Progress.Horizon = 3*s.Job.Steps+step, 3*s.Job.Steps+step+402
		s.Coverage.Done, s.Coverage.Spans = done, []Span{{0, done}}
		s.Coverage.Leased = min(s.Job.N, (step+402)*s.Job.N/s.Job.Steps)
	} else {
		s.Coverage.Digest = strings.Repeat("5e1f9a07", 4)
		s.Coverage.Last = &Closed{Epoch: 2, Count: s.Job.N, Digest: strings.Repeat("a3d01b44", 4)}
	}
	if len(s.Ranks) > 0 {
		s.Ranks[0].PID = 41712
		s.Ranks[0].Stats = map[string]float64{"samples_total": 1_204_112, "batches_total": 150_514, "read_bytes_total": 9.1e11, "next_wait_seconds_total": 12.25}
	}
}

// HaltedSample is a sample of a lockstep job that has lost a node.
func HaltedSample() Snapshot {
	s := Sample("lockstep", 8, 8)
	s.Status, s.Reason = Halted, "a rank was lost: the trainer must say from which step to go on"
	s.Progress.Halted, s.Nodes[5].Lost = true, true
	s.Rates.Samples = 0
	for i := 100; i < 120; i++ {
		s.Rates.History[i] = 0
	}
	for i := range s.Ranks {
		zero := 0.
		s.Ranks[i].Rate = &zero
	}
	return s
}
