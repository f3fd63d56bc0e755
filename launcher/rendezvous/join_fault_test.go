package rendezvous

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/testport"
	"github.com/headrace/headrace/nd"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// pytorch issue 111646: the host of a node loses its power, and the others never
// restart. Both sides notice the silence within three heartbeats and one.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		configs := []Config{m.node(t, 1, 3, 0), m.node(t, 1, 3, 1), m.node(t, 1, 3, 2)}
		for i := range configs {
			configs[i].MaxRestarts = 1
		}
		groups := join(t, configs...)
		next(t, groups...)
		m.mu.Lock()
		m.mute[2] = true
		m.mu.Unlock()
		began := time.Now()
		for _, g := range groups[:2] {
			if e := wantEvent(t, g, Restart); !strings.Contains(e.Reason, "node 2 (host2, pid 102) was lost: no sign of life for 15s") {
				t.Errorf("reason %q", e.Reason)
			}
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("noticed after %v", d)
		}
		if e := wantEvent(t, groups[2], Stop); !strings.Contains(e.Reason, "lost the rendezvous at h0:29400: no sign of life for 15s") {
			t.Errorf("reason %q", e.Reason)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("the cut off node noticed after %v", d)
		}
		if rounds := next(t, groups[:2]...); rounds[0].Restarts != 1 || len(rounds[0].Nodes) != 2 {
			t.Errorf("round %+v", rounds[0])
		}
		m.mu.Lock()
		m.mute[2] = false
		m.mu.Unlock()
	})
}

// A job that asks for one or two missed heartbeats notices silence too, and takes
// nobody for dead who is not.
func TestFewAttempts(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemnet()
			configs := []Config{m.node(t, 2, 2, 0), m.node(t, 2, 2, 1)}
			for i := range configs {
				configs[i].Attempts = attempts
			}
			groups := join(t, configs...)
			next(t, groups...)
			time.Sleep(10 * time.Minute) // of the bubble
			select {
			case e := <-groups[0].Events():
				t.Fatalf("%d attempts: event %+v", attempts, e)
			default:
			}
			m.mu.Lock()
			m.mute[1] = true
			m.mu.Unlock()
			began := time.Now()
			wantEvent(t, groups[0], Stop)
			if d := time.Since(began); d > time.Duration(2*attempts)*5*time.Second+5*time.Second {
				t.Errorf("%d attempts: noticed after %v", attempts, d)
			}
			wantEvent(t, groups[1], Stop)
			m.mu.Lock()
			m.mute[1] = false
			m.mu.Unlock()
		})
	}
}

// pytorch issue 73682: on Kubernetes the master's name does not resolve until its pod
// is ready, and that was fatal.
func TestNameNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		m.unready["h0"] = 40
		var mu sync.Mutex
		var notices []string
		node := m.node(t, 2, 2, 1)
		node.Notice = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			notices = append(notices, text)
		}
		master := m.node(t, 2, 2, 0)
		next(t, join(t, node, master)...)
		mu.Lock()
		defer mu.Unlock()
		if len(notices) == 0 || notices[0] != "waiting for the rendezvous: cannot resolve h0: no such host" {
			t.Errorf("notices %q", notices)
		}
	})
}

// What cannot be reached until the deadline is told in one line that names the hop.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		prepare func(m *memnet)
		want    string
	}{
		{func(m *memnet) { m.unready["h0"] = -1 }, "rendezvous: cannot resolve h0: no such host (tried for 10m0s)"},
		{func(*memnet) {}, "rendezvous: nobody listens at h0:29400 (tried for 10m0s)"},
		{func(m *memnet) { m.swallow(t) }, "rendezvous: no answer from h0:29400 (tried for 10m0s)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemnet()
			c.prepare(m)
			began := time.Now()
			_, err := Join(t.Context(), m.node(t, 2, 2, 1))
			if wantText(t, err, c.want); !errors.Is(err, nd.ErrIO) {
				t.Errorf("kind of %v", err)
			}
			if d := time.Since(began); d < 10*time.Minute || d > 11*time.Minute {
				t.Errorf("gave up after %v", d)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, l := range m.listeners {
				_ = l.Close()
			}
		})
	}
}

// swallow listens at h0 and says nothing.
func (m *memnet) swallow(t *testing.T) {
	l, err := m.listen(0, 29400)
	if err != nil {
		t.Error(err)
		return
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
}

// pytorch issue 150532: MASTER_ADDR does not resolve on another node, or a firewall
// closes its port, and init_process_group hangs. It is found before a worker starts.
func TestMasterOutOfReach(t *testing.T) {
	try := func(prepare func(t *testing.T, m *memnet, master *Config), want string) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemnet()
			master := m.node(t, 2, 2, 0)
			prepare(t, m, &master)
			groups := join(t, master, m.node(t, 2, 2, 1))
			var all sync.WaitGroup
			for _, g := range groups {
				all.Go(func() {
					_, err := g.Next(t.Context())
					wantText(t, err, "cannot reach MASTER_ADDR, which is node 0 (host0, pid 100): "+want)
					var stopped *Stopped
					if !errors.As(err, &stopped) || stopped.Event.Kind != Stop {
						t.Errorf("error %v", err)
					}
				})
			}
			all.Wait()
		})
	}
	try(func(_ *testing.T, m *memnet, c *Config) { c.Node.Addr = "h0.local"; m.unready["h0.local"] = -1 }, "cannot resolve h0.local: no such host")
	try(func(_ *testing.T, m *memnet, _ *Config) {
		m.closed = func(to string) bool { return !strings.HasSuffix(to, ":29400") }
	}, "nobody listens at h0:")
	// The name leads to another host on which somebody listens.
	try(func(t *testing.T, m *memnet, c *Config) { c.Node.Addr = "h1"; m.swallowAll(t, 1) }, "h1:4000")
}

// swallowAll is a host at which something else answers at every port that is held.
func (m *memnet) swallowAll(t *testing.T, n int) {
	for port := 40001; port <= 40002; port++ { // the nodes join in any order
		l, err := m.listen(n, port)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close() })
	}
}

// Nodes that are not of one job do not meet, and hear why at once. So does, once, the
// user of the node that waits.
func TestStrangers(t *testing.T) {
	try := func(change func(c *Config), want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m := newMemnet()
			host, told := m.node(t, 2, 2, 0), make(chan string, 9)
			host.Notice = func(text string) { told <- text }
			join(t, host)
			stranger := m.node(t, 2, 2, 1)
			change(&stranger)
			_, err := Join(t.Context(), stranger)
			_, _ = Join(t.Context(), stranger)
			synctest.Wait()
			_, why, found := strings.Cut(want, ": ") // what is before it names the other side
			if !found {
				why = want
			}
			if len(told) != 1 {
				t.Errorf("%d notices", len(told))
			} else if text := <-told; !strings.HasPrefix(text, "a node at 10.0.0.2 was refused: ") || !strings.Contains(text, why) {
				t.Errorf("notice %q", text)
			}
			if wantText(t, err, want); !errors.Is(err, nd.ErrConfig) && !errors.Is(err, nd.ErrIO) {
				t.Errorf("kind of %v", err)
			}
		})
	}
	try(func(c *Config) { c.Key = []byte("other") }, "h0:29400 is not of this job: the keys differ: run id, endpoint port and --key-file (HEADRACE_KEY_FILE) must be the same on every node")
	try(func(c *Config) { c.Key = nil }, "the keys differ")
	try(func(c *Config) { c.RunID = "two" }, `the rendezvous at h0:29400 refuses this node: this is job "job", not "two"`)
	try(func(c *Config) { c.Max = 3 }, "this is a job of 2 nodes, not of 2:3 nodes")
	try(func(c *Config) { c.MaxRestarts = 3 }, "this job has 0 restarts, not 3")
	try(func(c *Config) { c.Static, c.NodeRank = true, 1 }, "this is a job of 2 nodes, not of 2 nodes with given ranks")
}

// A node with a rank that another node has may be that node's next life: it is let in
// when the other's death has been noticed, and refused when the other lives.
func TestTakenRank(t *testing.T) {
	for _, dies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemnet()
			first, second := m.node(t, 2, 3, 1), m.node(t, 2, 3, 2)
			first.NodeRank, second.NodeRank = 1, 1
			groups := join(t, m.node(t, 2, 3, 0), first)
			m.mu.Lock()
			m.mute[1] = dies
			m.mu.Unlock()
			g, err := Join(t.Context(), second)
			if dies {
				if err != nil {
					t.Fatal(err)
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			} else {
				wantText(t, err, "node rank 1 is taken by node 1 (host1, pid 101)")
			}
			m.mu.Lock()
			m.mute[1] = false
			m.mu.Unlock()
			closeAll(t, groups)
		})
	}
}

// Two versions tell each other theirs.
func TestVersions(t *testing.T) {
	near, far := net.Pipe()
	errs := make(chan error)
	go func() {
		mine := greeting{Protocol: protocol, Version: 2, Nonce: make([]byte, nonceBytes)}
		errs <- serverShake(far, []byte("k"), &mine)
	}()
	err := clientShake(near, []byte("k"), &greeting{Protocol: protocol, Version: 1, Nonce: make([]byte, nonceBytes)})
	wantText(t, err, "it speaks version 2 of the rendezvous, this node 1")
	if err := errors.Join(near.Close(), far.Close()); err != nil {
		t.Error(err)
	}
	if err := <-errs; err == nil {
		t.Error("the server took a client that hung up")
	}
}

// A server that has no key is found out, though it takes every client's proof.
func TestServerWithoutKey(t *testing.T) {
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var theirs greeting
		var p proof
		_ = read(far, &theirs)
		_ = write(far, greeting{Protocol: protocol, Version: version, Nonce: theirs.Nonce}) // and plays back
		_ = read(far, &p)
		_ = write(far, p)
	}()
	wantText(t, shake(near, []byte("key"), false, time.Minute), "the other side does not have the key")
	<-done
	if err := errors.Join(near.Close(), far.Close()); err != nil {
		t.Error(err)
	}
}

// Who has proved its key and then says nothing, or no more than that it is alive, is
// hung up on.
func TestPeerThatDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		join(t, m.node(t, 2, 2, 0))
		conn, err := m.dial(t.Context(), 1, "h0:29400")
		if err != nil {
			t.Fatal(err)
		}
		if err := shake(conn, []byte("key"), false, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := write(conn, &message{Type: typeBeat}); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if _, err := io.Copy(io.Discard, conn); errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("the coordinator keeps it")
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A probe that reaches rank 0's node of another job finds that out, also where both
// jobs have one key.
func TestTokenIsOfOneJob(t *testing.T) {
	a, b := token([]byte("key"), "a", 1), token([]byte("key"), "b", 1)
	if string(a) == string(b) || string(a) == string(token([]byte("key"), "a", 2)) || string(a) == string(token([]byte("k"), "a", 1)) {
		t.Errorf("tokens %s and %s", a, b)
	}
}

// Whatever a worker left in its error file, its failure reaches the other nodes.
func TestFailureOfAnySize(t *testing.T) {
	deep := strings.Repeat("[", 9999) + strings.Repeat("]", 9999)
	for what, cause := range map[string]Failure{
		"deep":         {Error: []byte(deep)},
		"long":         {Error: []byte(`"` + strings.Repeat("<", 17<<20) + `"`)},
		"no JSON":      {Error: []byte(`{"message"`)},
		"two values":   {Error: []byte(`1],[2`)},
		"long message": {Message: strings.Repeat("\xff", 10<<20)},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemnet()
				groups := join(t, m.node(t, 2, 2, 0), m.node(t, 2, 2, 1))
				next(t, groups...)
				cause.ExitCode = 3
				report(t, groups[1], Outcome{Kind: Failed, Cause: &cause})
				for _, g := range groups {
					if e := wantEvent(t, g, Stop); e.Cause == nil || e.Cause.ExitCode != 3 || len(e.Cause.Error) > 0 {
						t.Errorf("event %.300s", e.Reason)
					}
				}
			})
		})
	}
}

// Close does not wait for a probe whose answer does not come.
func TestCloseBesideProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		g := &group{config: &Config{network: m.host(1)}}
		m.swallow(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := g.dialOnce(ctx, "h0:29400", 1); err == nil || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, l := range m.listeners {
			_ = l.Close()
		}
	})
}

// Bytes that are no handshake neither harm the job nor keep it busy.
func TestNoise(t *testing.T) {
	port := testport.Free(t)
	first := join(t, elastic(port, 2, 2, 0))
	for _, noise := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x02{}", "\xff\xff\xff\xff", "\x00\x00\x00\x05null\n"} {
		conn, err := net.Dial("tcp", first[0].(*group).address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, noise); err != nil {
			t.Fatal(err)
		}
		if noise != "" {
			_, _ = io.ReadAll(conn) // the coordinator hangs up, perhaps by a reset
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	next(t, first[0], join(t, elastic(port, 2, 2, 1))[0])
	// And the other way: a node whose endpoint is another program.
	web := listenAt(t, "127.0.0.1", 0)
	go func() {
		conn, err := web.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = conn.Close()
	}()
	c := job(web.Addr().(*net.TCPAddr).Port, 2, 1)
	_, err := Join(t.Context(), c)
	wantText(t, err, "is not of this job: what answers is no headrace rendezvous")
}

func TestJoinIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Join(ctx, m.node(t, 2, 2, 1)); err == nil {
			t.Error("joined nobody")
		}
	})
}

func TestValidateReportsAll(t *testing.T) {
	_, err := Join(t.Context(), Config{Endpoint: "x", Static: true, Min: 3, Max: 2, NodeRank: -1, MaxRestarts: -1, Attempts: -2})
	for _, part := range []string{`the endpoint "x" is not host:port`, "3 to 2 nodes", "a static job has a fixed number", "needs each node's rank", "0 workers", "-1 restarts", "a timeout is negative"} {
		wantText(t, err, part)
	}
}

func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		`{"type":"join","join":{"node":{"host":"a","pid":1},"node_rank":-1,"run_id":"j","min":1,"max":2}}`,
		`{"type":"round","agreed":{"number":1,"members":[1],"nodes":[{"host":"a"}],"port":5}}`,
		`{"type":"outcome","outcome":{"round":1,"kind":"failed","cause":{"rank":1,"error":{"a":1}}}}`,
		`{"type":"event","event":{"kind":"stop","round":1}}`,
		`{"type":"relay","relay":{"to":-1,"kind":"plan","doc":"aGk="}}`, `{"type":"probe"}`, `{}`, `null`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMessage(text)
		if err != nil {
			return
		}
		// Neither side may be harmed by a message that was taken, in whatever state.
		rules := testRules(joining{RunID: "j", Min: 1, Max: 2, NodeRank: -1})
		for _, state := range []int{0, 1, 2} {
			play(newMachine(rules), &member{id: 1}, m, state)
		}
	})
}

// play brings a machine and a member of a job of one into a state, and gives both a
// message.
func play(m *machine, b *member, msg *message, state int) {
	j := m.rules.job
	m.step(0, input{message: &message{Type: typeJoin, Join: &j}})
	if state > 0 {
		_ = b.next()
		m.step(0, input{from: 1, message: &message{Type: typeReady}})
		m.step(time.Minute, input{})
	}
	if state > 1 {
		m.step(time.Minute, input{from: 1, message: &message{Type: typeListening, Attempt: 1}})
		for _, e := range m.step(time.Minute, input{from: 1, message: &message{Type: typeProbed, Attempt: 1}}) {
			if e.kind == send {
				b.receive(e.message)
			}
		}
	}
	m.step(time.Minute, input{from: 1, message: msg})
	m.step(time.Hour, input{})
	b.receive(msg)
	b.report(Outcome{Round: b.round.Number, Kind: Failed, Cause: &Failure{}})
	b.lost("x")
	b.take()
}

// stream is a connection on which the peer's bytes are known beforehand.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s stream) Write(p []byte) (int, error) { return len(p), nil }
func (s stream) SetDeadline(time.Time) error { return nil }

// Whatever comes, nobody is taken for a peer who does not have the key: the
// challenges are fresh, so that no recorded bytes are an answer.
func FuzzHandshake(f *testing.F) {
	framed := func(v any) []byte {
		text, _ := frame(v)
		return text
	}
	hello := framed(greeting{Protocol: protocol, Version: version, Nonce: make([]byte, nonceBytes)})
	f.Add(append(hello, framed(proof{MAC: make([]byte, 32)})...))
	f.Add(append(hello, framed(proof{Refused: "no"})...))
	f.Add(hello)
	f.Add([]byte("\x00\x00\x00\x04null"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		for _, server := range []bool{true, false} {
			if err := shake(stream{Reader: strings.NewReader(string(bytes))}, []byte("key"), server, time.Minute); err == nil {
				t.Fatalf("server %v: %q was taken", server, bytes)
			}
		}
	})
}

// The end of a job does not wait for a node that is cut off longer than it takes to
// notice that.
func TestCloseBesideSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemnet()
		groups := join(t, m.node(t, 2, 2, 0), m.node(t, 2, 2, 1))
		next(t, groups...)
		m.mu.Lock()
		m.mute[1] = true
		m.mu.Unlock()
		report(t, groups[0], Outcome{Kind: Signalled, Signal: 15})
		wantEvent(t, groups[0], Stop)
		began := time.Now()
		if err := groups[0].Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("Close took %v", d)
		}
		wantEvent(t, groups[1], Stop)
		m.mu.Lock()
		m.mute[1] = false
		m.mu.Unlock()
	})
}
