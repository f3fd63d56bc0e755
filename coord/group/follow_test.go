package group

import (
	"testing"

	"github.com/headrace/headrace/coord"
)

// The agent that formed a job has no contacts. When all that its view names have ended it asks those
// that gossip has found, one each time, and no dead one; and none of them before it has asked the voters.
func TestStrangersAreAsked(t *testing.T) {
	n := fuzzed(t, 0)
	agent := func(i int) coord.Source { return coord.Source{ID: identity(i), Address: address(i - 1)} }
	n.Observe(n.now, agent(2), Dead)
	for i := range 3 {
		n.Observe(n.now, agent(5+i), Alive)
	}
	n.Observe(n.now, agent(9), Dead)
	asks := func(beats int) (list []coord.ID) {
		for range beats {
			n.Tick(n.now + n.cfg.Beat)
			strangers := 0
			for _, s := range n.Outbox() {
				m, err := coord.ParseMessage(s.Message)
				if err != nil {
					t.Fatal(err)
				}
				if _, follow := m.Body.(*coord.Follow); follow && s.To.ID != identity(2) {
					list = append(list, s.To.ID)
					strangers++
				}
			}
			if strangers > 1 {
				t.Errorf("%d strangers at a time", strangers)
			}
		}
		return list
	}
	if list := asks(50); len(list) > 0 {
		t.Errorf("all is well, and it asks %v", list)
	}
	newer := n.Stamp()
	newer.View += 9 // than what this one decides by itself
	n.Hear(n.now, newer)
	list := asks(50)
	if len(list) < 6 {
		t.Fatalf("it asks %v", list)
	}
	for i, id := range list {
		if want := identity(5 + i%3); id != want {
			t.Errorf("ask %d is of %v, want %v", i, id, want)
		}
	}
}
