package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/coord"
)

// rejoins has an agent become another member, as an eviction does.
func (h *host) rejoins(t *testing.T) {
	t.Helper()
	if err := h.do(t.Context(), func() error { h.again("test"); return nil }); err != nil {
		t.Fatal(err)
	}
}

// included reports whether the agent is in the view that it knows.
func (h *host) included() (in bool) {
	h.Look(func(s Sight) { in = s.State.View != nil && s.ID != coord.ID{} && s.State.View.Index(s.ID) >= 0 })
	return in
}

// knows reports whether the agent, as the member that it is now, knows a view.
func (h *host) knows() (it bool) {
	_ = h.do(context.Background(), func() error { it = h.self.node.State().View != nil; return nil })
	return it
}

// Each eviction leaves as many contacts as the one before, however large the view is; a join
// goes to some of them.
func TestContactsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	b := startHost(t, "b", func(c *Config) { c.Contacts, c.Witness = []string{a.Address()}, true })
	eventually(t, ctx, "it is in the view", b.included)
	for range 3 { // it is in no view after that: its earlier parts are voters that are lost
		b.rejoins(t)
		eventually(t, ctx, "it knows the view", b.knows)
	}
	_ = b.do(ctx, func() error {
		if got := b.self.gossip.contacts; !slices.Equal(got, []string{a.Address()}) {
			t.Errorf("contacts %v", got)
		}
		return nil
	})
	var v coord.View
	for i := range 100 {
		v.Members = append(v.Members, coord.Member{ID: coord.ID{byte(i), 1}, Address: fmt.Sprint(i)})
	}
	v.Voters = []coord.ID{{7, 1}, {8, 1}}
	if got := addresses(&v, coord.ID{7, 1}, "9"); len(got) != mostFound || got[0] != "8" || slices.Contains(got, "7") || slices.Contains(got, "9") {
		t.Errorf("of a view of 100: %v", got)
	}
	g := gossip{}
	g.mu.lost = map[string]string{}
	for i := range 20 {
		g.contacts = append(g.contacts, fmt.Sprint(i))
	}
	tried := map[string]bool{}
	for range 1000 { // one that is never drawn of 20: chance 20 * 0.8^1000
		list := g.targets()
		if len(list) > joinSome {
			t.Fatalf("a join of %d", len(list))
		}
		for _, c := range list {
			tried[c] = true
		}
	}
	if len(tried) != 20 {
		t.Errorf("%d of 20 contacts were tried", len(tried))
	}
}

// An evicted agent that cannot begin again at once does so when it can.
func TestBeginsAgainWhenItCan(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	stuck := make(chan string, 100)
	b := startHost(t, "b", func(c *Config) {
		c.Contacts, c.Witness = []string{a.Address()}, true
		c.Listener.Event = func(e Event) {
			if e.Kind == "error" {
				stuck <- e.Text
			}
		}
	})
	eventually(t, ctx, "it is in the view", b.included)
	named := func(address string) {
		b.mu.Lock()
		b.address = address
		b.mu.Unlock()
	}
	right := b.Address()
	_ = b.do(ctx, func() error { named("no port"); b.again("test"); return nil })
	if text := <-stuck; !strings.Contains(text, "no port") {
		t.Errorf("it says %q", text)
	}
	var reason string
	_ = b.do(ctx, func() error { reason = b.picture().Reason; named(right); return nil })
	if !strings.Contains(reason, "cannot begin again") {
		t.Errorf("the page says %q", reason)
	}
	eventually(t, ctx, "it is in the view again", func() (there bool) {
		_ = b.do(ctx, func() error { there = b.self.node != nil && b.self.node.State().View != nil; return nil })
		return there
	})
}
