package agent

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// A probe says of an agent who it is, and of what is in the way what it is.
func TestProbe(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	key := []byte("0123456789abcdef")
	a := startHost(t, "a", func(c *Config) { c.Form, c.Release = true, "1.2.3" })
	r := Probe(ctx, a.Address(), key)
	if r.StreamError != nil || r.PacketError != nil || r.Lost == pings || r.Answer.Job != "job" || r.Answer.Name != "a" || r.Answer.Release != "1.2.3" || r.Answer.View != 0 || r.Answer.ID != "" {
		t.Errorf("before a rank: %+v", r)
	}
	w, err := a.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Ahead: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	if r := Probe(ctx, a.Address(), key); r.StreamError != nil || r.Answer.Nodes != 1 || r.Answer.Ranks != 1 || r.Answer.ID == "" {
		t.Errorf("in the job: %+v", r)
	}
	var probing sync.WaitGroup // each waits for answers that do not come
	for name, other := range map[string][]byte{"another key": []byte("another key, 16+"), "none": nil} {
		probing.Go(func() {
			r := Probe(ctx, a.Address(), other)
			if !errors.Is(r.StreamError, nd.ErrConfig) || r.PacketError == nil || r.Answer != (Answer{}) {
				t.Errorf("%s: %+v", name, r)
			}
		})
	}
	probing.Wait()
	if n := a.drops.counts(); n["gossip-key"] == 0 || n["gossip-key"] > 2*pings || n["key"] == 0 {
		t.Errorf("drops: %v", n)
	}
	open := startHost(t, "open", func(c *Config) { c.Form, c.Key = true, nil })
	if r := Probe(ctx, open.Address(), nil); r.StreamError != nil || r.PacketError != nil {
		t.Errorf("without a key: %+v", r)
	}
	if r := Probe(ctx, open.Address(), key); !errors.Is(r.StreamError, nd.ErrConfig) || r.PacketError == nil {
		t.Errorf("a key for one without: %+v", r)
	}
}

// What is no agent is told apart from one that is not there, and neither makes the probe
// wait for long.
func TestProbeOfOthers(t *testing.T) {
	key := []byte("0123456789abcdef")
	serve := func(f func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				f(conn)
				_ = conn.Close()
			}
		}()
		return l.Addr().String()
	}
	talker := serve(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") })
	began := time.Now()
	if r := Probe(t.Context(), talker, key); !errors.Is(r.StreamError, nd.ErrConfig) || r.PacketError == nil {
		t.Errorf("another server: %+v", r)
	}
	full := serve(func(net.Conn) {}) // as an agent does that takes no more
	if r := Probe(t.Context(), full, key); r.StreamError == nil || !strings.Contains(r.StreamError.Error(), "takes no more streams") && !strings.Contains(r.StreamError.Error(), "reset") {
		t.Errorf("one that is full: %+v", r)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := Probe(t.Context(), gone, key); r.StreamError == nil || !strings.Contains(r.StreamError.Error(), "refused") {
		t.Errorf("nobody: %+v", r)
	}
	if r := Probe(t.Context(), "no port", key); r.StreamError == nil || r.PacketError == nil {
		t.Errorf("no address: %+v", r)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Whatever comes as a packet: nothing is answered but to a ping of who knows the key, and
// then no more bytes than came.
func FuzzAnswerPing(f *testing.F) {
	a := &Agent{config: Config{Key: []byte("0123456789abcdef")}}
	good := newPing(a.config.Key)
	f.Add(good)
	f.Add(good[:pingLeast])
	f.Add(good[:pingLeast-1])
	f.Add([]byte{probeStream})
	f.Add(a.answerPing(good))
	f.Add(newPing([]byte("another key, 16+")))
	f.Fuzz(func(t *testing.T, packet []byte) {
		back := a.answerPing(packet)
		if back == nil {
			return
		}
		if len(back) != len(packet) || packet[1] != ping || !answers(back, packet, a.config.Key) {
			t.Errorf("%x answers %x", back, packet)
		}
	})
}
