package agent

import (
	"sync"

	"github.com/headrace/headrace/coord"
)

// queue is what has happened and was not looked at. Whoever puts into it never waits:
// callbacks of memberlist run under its lock. Messages are bounded, in number and bytes:
// beyond that the newest is dropped, as a network would, for all of them are said again.
// Gossip says a thing once, so of that the newest about each agent is kept; memberlist bounds
// how many there are. Of this node's ranks each has one call at a
// time; Tell and Ended put theirs without waiting, as often as the launcher calls them.
type queue struct {
	wake     chan struct{} // holds one
	mu       sync.Mutex
	list     []any
	seen     map[coord.ID]int // where in the list the newest about an agent is
	stamp    int              // where the newest stamp is; -1: there is none
	messages int
	bytes    int
	dropped  uint64
}

const (
	// maxQueued is more than a storm of joiners sends in the time of a beat.
	maxQueued = 1 << 14
	// maxQueuedBytes lets two of the largest messages in.
	maxQueuedBytes = 128 << 20
)

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), seen: map[coord.ID]int{}, stamp: -1}
}

func (q *queue) put(x any) {
	q.mu.Lock()
	q.add(x)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add appends, puts in the place of what is older, or drops. q.mu is held.
func (q *queue) add(x any) {
	switch x := x.(type) {
	case received:
		if q.messages >= maxQueued || q.bytes+len(x) > maxQueuedBytes {
			q.dropped++
			return
		}
		q.messages++
		q.bytes += len(x)
	case seen:
		if i, ok := q.seen[x.id]; ok {
			x.gone = x.gone || told(q.list[i]).gone
			q.list[i] = x
			return
		}
		q.seen[x.id] = len(q.list)
	case noted:
		if i, ok := q.seen[x.id]; ok {
			x.gone = x.gone || told(q.list[i]).gone
			if s, ok := q.list[i].(seen); ok {
				s.meta = x.meta
				q.list[i] = s
			} else {
				q.list[i] = x
			}
			return
		}
		q.seen[x.id] = len(q.list)
	case coord.Stamp:
		if q.stamp >= 0 {
			if x.Newer(q.list[q.stamp].(coord.Stamp)) {
				q.list[q.stamp] = x
			}
			return
		}
		q.stamp = len(q.list)
	}
	q.list = append(q.list, x)
}

// told is what an agent tells of itself with what was seen or noted of it.
func told(x any) meta {
	if s, ok := x.(seen); ok {
		return s.meta
	}
	return x.(noted).meta
}

// take empties the queue. It tells how many messages were dropped since the last one.
func (q *queue) take() (list []any, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, dropped = q.list, q.dropped
	q.list, q.messages, q.bytes, q.dropped, q.stamp = nil, 0, 0, 0, -1
	clear(q.seen)
	return list, dropped
}
