package agentapi

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/headrace/headrace/nd"
)

// The way of a plan: plan, relayPlan to node 0, collect; and of its verdict: announce
// to all nodes, settle. What takes too long ends by expire.

// plan takes the plan of one of this node's ranks.
func (s *Server) plan(c *client, id uint64, p Plan) {
	deadline := time.Now().Add(s.options.PlanTimeout)
	s.mu.Lock()
	round := s.mu.round
	if c.round != round.Number { // Begin came in between
		s.mu.Unlock()
		c.reply(&message{Type: typeChecked, ID: id, Error: describe(nd.Errorf(nd.ErrClosed, "the round ended before the plan came"))})
		return
	}
	if round.Node != 0 {
		// Node 0's verdict names the missing ranks; it gets the time to arrive.
		deadline = deadline.Add(s.options.PlanTimeout / 10)
	}
	s.mu.waiting = append(s.mu.waiting, waiter{c, id, p.Check, deadline})
	s.mu.Unlock()
	if round.Node == 0 {
		s.collect(round.Number, p)
	} else if err := s.relayPlan(roundPlan{round.Number, p}); err != nil {
		s.settle(round.Number, verdict{Check: p.Check, Error: describe(err)})
	}
	s.rouse()
}

// rouse has expire look at the deadlines again.
func (s *Server) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Server) relayPlan(p roundPlan) error {
	doc, err := json.Marshal(p)
	if err != nil {
		return nd.Errorf(nd.ErrBug, "plan: %w", err)
	}
	return s.relay(0, planDocument, doc)
}

func (s *Server) relay(to int, kind string, doc []byte) error {
	if s.options.Relay == nil {
		return nil
	}
	return s.options.Relay(to, kind, doc)
}

// collect adds a plan to node 0's checks. Another node's launcher may be ahead of this
// one: a plan of the next round waits for Begin.
func (s *Server) collect(round int, p Plan) {
	s.mu.Lock()
	if round > s.mu.round.Number {
		if s.mu.earlyBytes += size(&p); s.mu.earlyBytes <= maxPlanBytes {
			s.mu.early = append(s.mu.early, roundPlan{round, p})
		}
		s.mu.Unlock()
		return
	}
	if round != s.mu.round.Number || s.mu.round.Node != 0 {
		s.mu.Unlock()
		return
	}
	done, err := s.mu.checks.add(p, time.Now().Add(s.options.PlanTimeout))
	s.mu.Unlock()
	if done {
		s.announce(round, verdict{Check: p.Check, Error: describe(err)})
	}
	s.rouse()
}

// announce settles a check on all nodes.
func (s *Server) announce(round int, v verdict) {
	v.Round = round
	if doc, err := json.Marshal(v); err == nil {
		// A node that does not hear of it answers its ranks when their time is up.
		_ = s.relay(-1, verdictDocument, doc)
	}
	s.settle(round, v)
}

// settle answers this node's ranks that wait for a check.
func (s *Server) settle(round int, v verdict) {
	s.mu.Lock()
	if round != s.mu.round.Number {
		s.mu.Unlock()
		return
	}
	answered := s.takeLocked(func(w waiter) bool { return w.check == v.Check })
	s.mu.Unlock()
	for _, w := range answered {
		w.client.reply(&message{Type: typeChecked, ID: w.id, Error: v.Error})
	}
}

// takeLocked removes and returns the waiters that match.
func (s *Server) takeLocked(match func(waiter) bool) []waiter {
	var taken []waiter
	s.mu.waiting = slices.DeleteFunc(s.mu.waiting, func(w waiter) bool {
		if match(w) {
			taken = append(taken, w)
			return true
		}
		return false
	})
	return taken
}

// expire gives up on checks whose time is up, until Close.
func (s *Server) expire() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.wake:
		case <-timer.C:
			s.giveUp(time.Now())
		}
		timer.Reset(time.Until(s.nextDeadline()))
	}
}

func (s *Server) nextDeadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := time.Now().Add(time.Hour)
	for _, w := range s.mu.waiting {
		if w.deadline.Before(next) {
			next = w.deadline
		}
	}
	for _, k := range s.mu.checks.open {
		if k.deadline.Before(next) {
			next = k.deadline
		}
	}
	return next
}

func (s *Server) giveUp(now time.Time) {
	s.mu.Lock()
	round := s.mu.round
	over := s.mu.checks.expire(now)
	s.mu.Unlock()
	for _, v := range over {
		s.announce(round.Number, v)
	}
	s.mu.Lock()
	late := s.takeLocked(func(w waiter) bool { return !now.Before(w.deadline) })
	s.mu.Unlock()
	for _, w := range late {
		err := nd.Errorf(nd.ErrIO, "node 0 gave no verdict on the check %q in time", w.check)
		w.client.reply(&message{Type: typeChecked, ID: w.id, Error: describe(err)})
	}
}
