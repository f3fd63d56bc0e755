package sim

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/coord/group"
)

// Who votes changes so that a majority before and one behind have a voter in common, by the rules of
// Raft: one at a time, or with both sets deciding in between.
func TestVotersFollowEachOther(t *testing.T) {
	for _, c := range []struct {
		name       string
		last, next voters
		ok         bool
	}{
		{"one comes", voters{now: []uint64{1, 2}}, voters{now: []uint64{1, 2, 3}}, true},
		{"one goes", voters{now: []uint64{1, 2, 3}}, voters{now: []uint64{1, 3}}, true},
		{"both decide", voters{now: []uint64{1, 2, 3}}, voters{now: []uint64{4, 5, 6}, outgoing: []uint64{1, 2, 3}}, true},
		{"the old ones do no more", voters{now: []uint64{4, 5, 6}, outgoing: []uint64{1, 2, 3}}, voters{now: []uint64{4, 5, 6}}, true},
		{"two come at once", voters{now: []uint64{1}}, voters{now: []uint64{1, 2, 3}}, false},
		{"one takes another's place", voters{now: []uint64{1, 2, 3}}, voters{now: []uint64{1, 2, 4}}, false},
		{"others are outgoing", voters{now: []uint64{1, 2, 3}}, voters{now: []uint64{4, 5, 6}, outgoing: []uint64{1, 2}}, false},
		{"another change while both decide", voters{now: []uint64{4}, outgoing: []uint64{1}}, voters{now: []uint64{5}, outgoing: []uint64{4}}, false},
		{"others than the new ones are left", voters{now: []uint64{4, 5, 6}, outgoing: []uint64{1, 2, 3}}, voters{now: []uint64{1, 2, 3}}, false},
		{"nothing changes", voters{now: []uint64{1, 2}}, voters{now: []uint64{1, 2}}, false},
		{"nobody is left", voters{now: []uint64{1}}, voters{}, false},
	} {
		if got := c.last.precedes(&c.next); got != c.ok {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An entry counts by the voters of its place in the log, or by those before their last change, and by
// none that were replaced longer ago; and only if they hold it.
func TestWhoDecides(t *testing.T) {
	for _, c := range []struct {
		by   []uint64
		want string
	}{
		{[]uint64{1, 2, 3, 4}, "0 of 4 voters have it"},
		{[]uint64{1, 2, 3}, "0 of 3 voters have it"},
		{[]uint64{1, 2}, "is decided by [1 2]"},
		{[]uint64{1, 2, 4}, "is decided by [1 2 4]"},
	} {
		w := newWorld(Scenario{}, Watch{})
		w.log.quorums.changes = []voters{{now: []uint64{1, 2}}, {index: 5, now: []uint64{1, 2, 3}}, {index: 7, now: []uint64{1, 2, 3, 4}}}
		w.log.quorums.hold(&process{host: &host{w: w}}, &group.Event{Kind: group.Applied, Index: 9, Term: 1, Voters: c.by})
		if v := w.result.Violations; len(v) != 1 || v[0].Invariant != "I2" || !strings.Contains(v[0].Seen, c.want) {
			t.Errorf("by %v: %v", c.by, v)
		}
	}
}
