package pipeline

import "sync"

// queue hands work to goroutines that wait for it. Putting never waits, so that a
// slow worker does not hold up the scheduler. It is bounded all the same, by what
// the waves in flight and the look-ahead ask for.
type queue[T any] struct {
	mu     sync.Mutex
	some   *sync.Cond // there is work, or there will be none
	list   []T
	taken  int // of list
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.some = sync.NewCond(&q.mu)
	return q
}

func (q *queue[T]) put(t T) {
	q.mu.Lock()
	q.list = append(q.list, t)
	q.mu.Unlock()
	q.some.Signal()
}

// take waits for work; false when the queue is closed.
func (q *queue[T]) take() (T, bool) {
	var none T
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.taken == len(q.list) && !q.closed {
		q.some.Wait()
	}
	if q.closed {
		return none, false
	}
	t := q.list[q.taken]
	q.list[q.taken] = none
	if q.taken++; q.taken == len(q.list) {
		q.list, q.taken = q.list[:0], 0
	}
	return t, true
}

// close ends the goroutines. What is still queued is left undone.
func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.some.Broadcast()
}
