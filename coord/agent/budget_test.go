package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
)

// What waits for peers that stand still is bounded for all of them together, and the oldest of
// the fullest gives way; so is how many there are.
func TestQueuesAreBoundedTogether(t *testing.T) {
	p := newPeer(t)
	big := make([]byte, 4<<20) // one for all: it is its length that counts
	asked := make(chan struct{}, 1)
	for range 16 {
		to := silent(t, asked)
		for range 15 {
			p.send(to, big)
		}
	}
	total, links := p.queuedBytes() // one of each is being sent, perhaps
	if total > 256<<20 || total < (256-16*4)<<20 || links != 16 {
		t.Errorf("%d bytes wait in %d queues", total, links)
	}
	for i := range 5000 {
		p.send(fmt.Sprintf("127.1.%d.%d:9", i/250, 1+i%250), []byte("x"))
	}
	if _, links := p.queuedBytes(); links > 4096 {
		t.Errorf("%d queues", links)
	}
	if n := p.drops.counts()["queue"]; n < 5000-4096 {
		t.Errorf("%d drops", n)
	}
}

// queuedBytes is what waits in all queues, and how many of these there are.
func (l *links) queuedBytes() (bytes, queues int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.mu.out {
		k.mu.Lock()
		bytes += k.bytes
		k.mu.Unlock()
	}
	return bytes, len(l.mu.out)
}

// Messages that are being read are bounded on all streams together; short ones come through
// whoever has claimed the rest.
func TestReadersAreBoundedTogether(t *testing.T) {
	ctx := patient(t)
	to, from := newPeer(t), newPeer(t)
	before := to.drops.counts()["streams"]
	to.claim(allReadBytes - 1<<20) // as slow streams have
	from.send(to.address, make([]byte, 2<<20))
	eventually(t, ctx, "it is hung up on", func() bool { return to.drops.counts()["streams"] == before+1 })
	eventually(t, ctx, "a short message comes", func() bool {
		from.joins(to.address, from.address, nil)
		return len(to.got) > 0
	})
	eventually(t, ctx, "what was refused is given back", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return to.mu.reading == allReadBytes-1<<20
	})
}

// Streams of who does not know the key have places of their own, and lose them soon: those that
// have proved it go on, and more of them get in.
func TestStreamsWithoutTheKey(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	to, from := newPeer(t), newPeer(t)
	from.joins(to.address, from.address, nil)
	<-to.got
	for range maxUnproved + 10 {
		conn, err := dialStream(ctx, nil, to.address, messageStream, dialTimeout)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		var random [32]byte
		_, _ = rand.Read(random[:])
		if _, err := conn.Write(random[:]); err != nil {
			continue // it was hung up on
		}
	}
	eventually(t, ctx, "those that are too many are hung up on", func() bool { return to.drops.counts()["streams"] >= 10 })
	from.joins(to.address, from.address, nil)
	select {
	case <-to.got:
	case <-ctx.Done():
		t.Fatal("a stream that has proved its key does not go on")
	}
	began, late := time.Now(), newPeer(t)
	eventually(t, ctx, "another agent gets in", func() bool {
		late.joins(to.address, late.address, nil)
		return len(to.got) > 0
	})
	if took := time.Since(began); took > 2*proveTimeout {
		t.Errorf("another agent got in after %v", took)
	}
}

// Before there is a rank nobody takes streams of gossip: none is kept.
func TestGossipBeforeTheFirstRank(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	for range 2 * maxUndecided {
		conn, err := dialStream(ctx, nil, a.Address(), gossipStream, dialTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(firstByteTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Fatal("it answers gossip before it has any")
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a stream of gossip is kept")
		}
		_ = conn.Close()
	}
	w, err := a.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Ahead: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	b := startHost(t, "b", func(c *Config) { c.Witness, c.Contacts = true, []string{a.Address()} })
	eventually(t, ctx, "gossip goes on with a rank", func() bool { return b.included() })
}
