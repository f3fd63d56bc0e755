package agent

import (
	"fmt"
	"testing"
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
