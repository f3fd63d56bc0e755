package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/internal/sealed"
)

// peer speaks to agents as another one of the job does, and says what a test wants.
type peer struct {
	*links
	address string
	got     chan *coord.Message
}

type nobody struct{}

func (nobody) answerProbe(net.Conn)     {}
func (nobody) answerPing([]byte) []byte { return nil }

// jobKey is that of all hosts of these tests.
const jobKey = "0123456789abcdef"

func newPeer(t *testing.T) *peer {
	t.Helper()
	d := new(drops)
	listener, err := openPort("127.0.0.1:0", d, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{address: listener.Addr().String(), got: make(chan *coord.Message, 1<<12)}
	p.links = openLinks(listener, []byte(jobKey), d, func(b []byte) {
		if m, err := coord.ParseMessage(b); err == nil {
			select {
			case p.got <- m:
			default:
			}
		}
	})
	t.Cleanup(p.close)
	return p
}

// joins asks an agent to be admitted, as a member of one rank that means the same job.
func (p *peer) joins(to string, address string, change func(*coord.Admission)) {
	var id coord.ID
	_, _ = rand.Read(id[:])
	a := coord.Admission{Member: coord.Member{ID: id, Name: "peer", Address: address, Ranks: []int{0}}, Version: coord.Version, Job: "job", Plan: "p"}
	if change != nil {
		change(&a)
	}
	p.send(to, coord.AppendMessage(nil, &coord.Message{From: coord.Source{ID: id, Address: address}, Body: &coord.Join{Admission: a}}))
}

// refusal waits for a brief that refuses.
func (p *peer) refusal(ctx context.Context) string {
	for {
		select {
		case m := <-p.got:
			if b, ok := m.Body.(*coord.Brief); ok && b.Refused != "" {
				return b.Refused
			}
		case <-ctx.Done():
			return ""
		}
	}
}

// jobOfOne is an agent whose job runs, with one rank.
func jobOfOne(t *testing.T, ctx context.Context, n int64) (*host, *worker) {
	t.Helper()
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	w, err := a.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "async", N: n, Steps: 1, Epochs: 1, Ahead: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.die)
	return a, w
}

// Who asks to be admitted and does not fit is told why, and the job goes on without it.
func TestWrongJoiners(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 50)
	p := newPeer(t)
	for _, c := range []struct {
		name   string
		change func(*coord.Admission)
		words  string
	}{
		{"another version", func(a *coord.Admission) { a.Version++ }, "install the same headrace everywhere"},
		{"another job", func(a *coord.Admission) { a.Job = "other" }, `it belongs to job "other"`},
		{"another data set", func(a *coord.Admission) { a.Plan = "q" }, "data, seed, batch or shuffle differ"},
	} {
		p.joins(a.Address(), p.address, c.change)
		if got := p.refusal(ctx); !strings.Contains(got, c.words) {
			t.Errorf("%s: %q, want %q", c.name, got, c.words)
		}
	}
	// A local rank that is there already.
	if _, err := a.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "async", N: 50, Steps: 1, Epochs: 1, Ahead: 16}); err == nil || !strings.Contains(err.Error(), "attached already") {
		t.Errorf("a rank twice: %v", err)
	}
	l := &ledger{done: map[int64]int{}}
	if err := w.work(ctx, l, 0); err != nil || len(l.done) != 50 {
		t.Errorf("%d of 50 positions, %v", len(l.done), err)
	}
	if v := a.State().View; len(v.Members) != 1 {
		t.Errorf("view %+v", v)
	}
}

// A member that is admitted and is not heard of any more is out of the view at length, though
// gossip has never known it: its process was killed before gossip had told of it.
func TestMemberThatGossipNeverKnew(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 400)
	for _, name := range []string{"b", "c"} { // the job must have a majority without it
		startHost(t, name, func(c *Config) { c.Contacts, c.Witness = []string{a.Address()}, true })
	}
	eventually(t, ctx, "three decide", func() bool { return len(a.State().View.Voters) == 3 })
	p := newPeer(t)
	p.joins(a.Address(), p.address, nil)
	eventually(t, ctx, "it is in the view", func() bool { return a.State().View.World() == 2 })
	p.close() // as a process that was killed
	l := &ledger{done: map[int64]int{}}
	if err := w.work(ctx, l, 0); err != nil || len(l.done) != 400 {
		t.Errorf("%d of 400 positions, %v", len(l.done), err)
	}
}

// Bytes of strangers, and those of the job when they come again, do nothing but count; what
// is kept for them is bounded.
func TestGarbageAndReplays(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 50)
	noise := make([]byte, 1200)
	udp, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close() //nolint:errcheck // packets have no end
	for i := range 2000 {
		_, _ = rand.Read(noise)
		if _, err := udp.Write(noise[:1+i%len(noise)]); err != nil && !errors.Is(err, io.ErrShortWrite) {
			continue // the buffer is full
		}
	}
	stream := func(b []byte) {
		t.Helper()
		conn, err := net.Dial("tcp", a.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()                                      //nolint:errcheck // it was hung up on
		_, _ = conn.Write(b)                                    // it may hang up before
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))   // of no use if it answers
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<16)) // until it hangs up
	}
	_, _ = rand.Read(noise)
	for _, first := range []byte{'x', messageStream, probeStream} {
		stream(append([]byte{first}, noise...))
	}
	// A stream of the job, recorded and played again, is another stream.
	recorded := taped(t, coord.AppendMessage(nil, &coord.Message{From: coord.Source{ID: coord.ID{1}, Address: "127.0.0.1:1"}, Body: &coord.Gone{ID: a.State().View.Members[0].ID, Reason: "a lie"}}))
	before := a.drops.counts()
	stream(append([]byte{messageStream}, recorded...))
	eventually(t, ctx, "all of it is counted", func() bool {
		n := a.drops.counts()
		return n["key"] > before["key"] && n["malformed"] > 0 && n["gossip-malformed"]+n["gossip-label"]+n["gossip-key"]+n["gossip-queue"] > 0
	})
	// Messages that open and make no sense.
	p := newPeer(t)
	malformed := a.drops.counts()["malformed"]
	for range 10 {
		_, _ = rand.Read(noise)
		p.send(a.Address(), noise[:64])
	}
	eventually(t, ctx, "messages without sense are counted", func() bool { return a.drops.counts()["malformed"] >= malformed+10 })
	l := &ledger{done: map[int64]int{}}
	if err := w.work(ctx, l, 0); err != nil || len(l.done) != 50 || len(a.State().View.Members) != 1 {
		t.Errorf("%d of 50 positions, %v, view %+v", len(l.done), err, a.State().View)
	}
}

// taped is what a client of the job writes who sends one message.
func taped(t *testing.T, message []byte) []byte {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan []byte, 1)
	go func() {
		var tape []byte
		hello := make([]byte, 32)
		_, _ = io.ReadFull(far, hello)
		tape = append(tape, hello...)
		_, _ = far.Write(hello)
		rest, _ := io.ReadAll(far)
		done <- append(tape, rest...)
	}()
	c, err := sealed.Client(near, []byte(jobKey))
	if err == nil {
		err = c.Send(message, time.Second)
	}
	if err := errors.Join(err, near.Close()); err != nil {
		t.Fatal(err)
	}
	return <-done
}

// A thousand that ask to be admitted at once, none of whom reads what it is told: half cannot be
// reached, half stand still. What the agent keeps for them is bounded, and the job goes on.
func TestStormOfJoiners(t *testing.T) {
	ctx := patient(t)
	a, w := jobOfOne(t, ctx, 500)
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes streams and never reads
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close() //nolint:errcheck // nothing was said
	before, threads := inUse(), runtime.NumGoroutine()
	p := newPeer(t)
	storm := func() {
		for i := range 1000 {
			address := deaf.Addr().String()
			if i%2 == 0 {
				address = fmt.Sprintf("127.0.0.2:%d", 1+i/2)
			}
			p.joins(a.Address(), address, func(a *coord.Admission) { a.Plan = "of another data set" })
			if i%100 == 0 {
				runtime.Gosched()
			}
		}
	}
	received := func() int64 { return a.Snapshot().Counters.Received }
	l := &ledger{done: map[int64]int{}}
	for begin := received(); received() < begin+1000; {
		storm()
		if err := w.work(ctx, l, 2); err != nil {
			t.Fatal(err)
		}
	}
	big := make([]byte, 1<<20)
	for range 1000 { // of a gigabyte for one that does not read, a queue is kept
		a.links.send(deaf.Addr().String(), big)
	}
	if more := inUse() - before; more > queuedBytes+64<<20 {
		t.Errorf("%d MB more are kept", more>>20)
	}
	if more := runtime.NumGoroutine() - threads; more > 1200 {
		t.Errorf("%d more goroutines", more)
	}
	n := a.drops.counts()
	if n["queue"] == 0 || n["unreachable"] == 0 {
		t.Errorf("drops %v", n)
	}
	if err := w.work(ctx, l, 0); err != nil || len(l.done) != 500 || len(a.State().View.Members) != 1 {
		t.Errorf("%d of 500 positions, %v, view %+v", len(l.done), err, a.State().View)
	}
	t.Logf("%d messages, %d MB and %d goroutines more, drops %v", received(), (inUse()-before)>>20, runtime.NumGoroutine()-threads, n)
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
