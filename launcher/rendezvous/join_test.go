package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/internal/testport"
)

// A test binary in which a goroutine of a group is left fails.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is the configuration of a node of a static job on this host.
func job(port, nodes, rank int) Config {
	return Config{
		RunID: "job", Endpoint: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Node:     Node{LocalWorld: 2, Host: fmt.Sprint("host", rank), PID: 100 + rank, Boot: "b"},
		NodeRank: rank, Static: true, Min: nodes, Max: nodes, JoinTimeout: 20 * time.Second,
	}
}

// elastic is the configuration of a node of an elastic job on this host.
func elastic(port, low, high, n int) Config {
	c := job(port, high, n)
	c.Static, c.NodeRank, c.Min, c.LastCall = false, -1, low, 300*time.Millisecond
	return c
}

// join lets nodes join at the same time.
func join(t *testing.T, configs ...Config) []Group {
	t.Helper()
	groups := make([]Group, len(configs))
	errs := make([]error, len(configs))
	var all sync.WaitGroup
	for i, c := range configs {
		all.Go(func() { groups[i], errs[i] = Join(t.Context(), c) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, groups) })
	return groups
}

func closeAll(t *testing.T, groups []Group) {
	t.Helper()
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// next lets nodes wait for a round at the same time.
func next(t *testing.T, groups ...Group) []Round {
	t.Helper()
	rounds := make([]Round, len(groups))
	errs := make([]error, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() { rounds[i], errs[i] = g.Next(t.Context()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return rounds
}

func report(t *testing.T, g Group, o Outcome) {
	t.Helper()
	if err := g.Report(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// wantEvent waits for a node's event.
func wantEvent(t *testing.T, g Group, kind EventKind) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	select {
	case e := <-g.Events():
		if e.Kind != kind {
			t.Fatalf("event %+v, want %s", e, kind)
		}
		return e
	case <-ctx.Done():
		t.Fatalf("no event, want %s", kind)
	}
	return Event{}
}

func TestStaticJob(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, job(port, 3, 2), job(port, 3, 0), job(port, 3, 1))
	for i, r := range next(t, groups...) {
		rank := []int{2, 0, 1}[i]
		if r.Rank != rank || r.Number != 0 || r.World() != 6 || r.Base(rank) != 2*rank || r.MasterAddr != "127.0.0.1" || r.MasterPort != port || r.RunID != "job" {
			t.Errorf("node %d: round %+v", rank, r)
		}
	}
	for _, g := range groups {
		report(t, g, Outcome{Round: 0, Kind: Succeeded})
	}
	for _, g := range groups {
		wantEvent(t, g, Done)
	}
}

func TestElasticJob(t *testing.T) {
	port := testport.Free(t)
	groups := join(t, elastic(port, 1, 3, 0), elastic(port, 1, 3, 1))
	rounds := next(t, groups...)
	if a, b := rounds[0], rounds[1]; len(a.Nodes) != 2 || a.Rank+b.Rank != 1 || a.MasterPort != b.MasterPort || a.MasterPort == port || a.MasterAddr != "127.0.0.1" {
		t.Errorf("rounds %+v", rounds)
	}
	late := join(t, elastic(port, 1, 3, 2))[0]
	var all sync.WaitGroup
	var third Round
	all.Go(func() { third = next(t, late)[0] })
	for _, g := range groups {
		wantEvent(t, g, Restart)
	}
	again := next(t, groups...)
	all.Wait()
	if third.Number != 1 || third.Restarts != 0 || len(third.Nodes) != 3 || again[0].Rank != rounds[0].Rank || again[1].Rank != rounds[1].Rank || third.Rank != 2 {
		t.Errorf("rounds %+v %+v", again, third)
	}
	for _, g := range append(groups, late) {
		report(t, g, Outcome{Round: 1, Kind: Succeeded})
	}
	for _, g := range append(groups, late) {
		wantEvent(t, g, Done)
	}
}

func TestQueue(t *testing.T) {
	q := newQueue[int](3, 10)
	push := func(item, size int, want bool) {
		t.Helper()
		if got := q.push(item, size); got != want {
			t.Errorf("push %d of %d bytes: %v", item, size, got)
		}
	}
	push(1, 100, true) // one item always has room: it was let in by another limit
	push(2, 1, false)
	<-q.ready
	if got := q.take(); len(got) != 1 || got[0] != 1 {
		t.Errorf("took %v", got)
	}
	push(3, 4, true)
	push(4, 6, true)
	push(5, 1, false)
	q.take()
	for i := range 4 {
		push(i, 0, i < 3)
	}
}

// Which node listens at an elastic job's endpoint is decided by addresses, not by
// comparing names.
func TestIsMine(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "192.0.2.1": false, "2001:db8::1": false} // the last two are RFC 5737's and 3849's
	for _, a := range own {
		hosts[a.(*net.IPNet).IP.String()] = true
	}
	for host, want := range hosts {
		if got, err := isMine(t.Context(), host); err != nil || got != want {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
}

// A node that cannot become the coordinator leaves nothing behind.
func TestHostFails(t *testing.T) {
	m := newMemnet()
	c := m.node(t, 1, 1, 0)
	c.network.listen = func(string, int) (net.Listener, error) { return nil, errors.New("no") }
	_, err := Join(t.Context(), c)
	wantText(t, err, "rendezvous at h0:29400: no")
}
