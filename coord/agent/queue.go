package agent

import "sync"

// queue is what has happened and was not looked at. Whoever puts into it never waits:
// callbacks of memberlist run under its lock. What can flood it is bounded where it
// comes from.
type queue struct {
	wake chan struct{} // holds one
	mu   sync.Mutex
	list []any
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(x any) {
	q.mu.Lock()
	q.list = append(q.list, x)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) take() []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}
