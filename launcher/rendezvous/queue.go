package rendezvous

import "sync"

// queue holds what a goroutine has not come to yet, up to a number and a sum of
// bytes; it takes no room while it is empty, since a coordinator has one for each of
// thousands of nodes. push never blocks; one goroutine takes.
type queue[T any] struct {
	ready chan struct{} // holds one token if there may be something to take
	count int
	bytes int
	mu    struct {
		sync.Mutex
		items []T
		bytes int
	}
}

func newQueue[T any](count, bytes int) *queue[T] {
	return &queue[T]{ready: make(chan struct{}, 1), count: count, bytes: bytes}
}

// push adds an item, and reports whether there was room. A first item always has.
func (q *queue[T]) push(item T, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.mu.items); n > 0 && (n >= q.count || q.mu.bytes+size > q.bytes) {
		return false
	}
	q.mu.items = append(q.mu.items, item)
	q.mu.bytes += size
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true
}

// take returns all that there is.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.mu.items
	q.mu.items, q.mu.bytes = nil, 0
	return items
}
