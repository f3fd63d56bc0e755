package agent

import (
	"testing"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// However much comes while nobody looks, the queue keeps a bounded part of it: messages up to
// their number and bytes, of gossip the newest about each agent, and every call.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue()
	const many = maxQueued + 1000
	for i := range many {
		q.put(received("m"))
		q.put(seen{id: coord.ID{0: byte(i % 8)}, state: group.Liveness(i % 3), meta: meta{gone: i == 3}})
		q.put(noted{coord.ID{0: byte(i % 8)}, meta{note: []byte{byte(i % 100)}}})
		q.put(coord.Stamp{View: uint64(i % 100)})
		if i%1000 == 0 {
			q.put(call(func() {}))
		}
	}
	list, dropped := q.take()
	messages, calls := 0, 0
	about := map[byte]seen{}
	var stamp coord.Stamp
	for _, x := range list {
		switch x := x.(type) {
		case received:
			messages++
		case call:
			calls++
		case seen:
			about[x.id[0]] = x
		case coord.Stamp:
			stamp = x
		}
	}
	if messages != maxQueued || dropped != many-maxQueued || calls != (many+999)/1000 || len(about) != 8 || stamp.View != 99 {
		t.Errorf("%d messages, %d dropped, %d calls, %d agents, stamp %v", messages, dropped, calls, len(about), stamp)
	}
	if len(list) != messages+calls+8+1 {
		t.Errorf("%d things are queued", len(list))
	}
	for id, s := range about {
		last := many - 1
		for last%8 != int(id) {
			last--
		}
		if s.state != group.Liveness(last%3) || s.gone != (id == 3) || len(s.note) != 1 || s.note[0] != byte(last%100) {
			t.Errorf("of agent %d: %+v", id, s)
		}
	}
	big := make(received, maxQueuedBytes/2)
	for range 3 {
		q.put(big)
	}
	if list, dropped = q.take(); len(list) != 2 || dropped != 1 {
		t.Errorf("%d large messages are queued, %d dropped", len(list), dropped)
	}
	if list, dropped = q.take(); list != nil || dropped != 0 {
		t.Errorf("then %d, %d", len(list), dropped)
	}
}

// What waits for a peer that reads nothing is bounded too: the oldest gives way.
func TestStalledPeerHoldsLittle(t *testing.T) {
	k := &link{wake: make(chan struct{}, 1)}
	for i := range queuedMessages + 10 {
		k.put([]byte{byte(i)})
	}
	if len(k.queue) != queuedMessages || k.bytes != queuedMessages || k.take()[0] != 10 {
		t.Errorf("%d messages of %d bytes", len(k.queue), k.bytes)
	}
	big := make([]byte, queuedBytes/2)
	for range 3 {
		k.put(big)
	}
	if k.bytes > queuedBytes || len(k.queue) != 2 {
		t.Errorf("%d large messages, %d bytes", len(k.queue), k.bytes)
	}
}
