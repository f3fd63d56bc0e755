package cuda

import (
	"math"
	"sync/atomic"
)

// closedBit marks a lifetime as closed; the other bits count the calls in flight.
const closedBit = math.MinInt64

// lifetime lets calls in until it is closed, and tells the closer when the last
// one is out. It exists because a handle used after its destruction is undefined
// behaviour in the driver.
type lifetime struct {
	state atomic.Int64
	idle  chan struct{} // closed by the last call that leaves a closed lifetime
}

func newLifetime() lifetime { return lifetime{idle: make(chan struct{})} }

// enter counts a call in; false means closed.
func (l *lifetime) enter() bool {
	for {
		n := l.state.Load()
		if n < 0 {
			return false
		}
		if l.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (l *lifetime) leave() {
	if l.state.Add(-1) == closedBit {
		close(l.idle)
	}
}

// close lets no more calls in and waits for those inside. It is true for the
// first caller alone.
func (l *lifetime) close() bool {
	before := l.state.Or(closedBit)
	if before > 0 {
		<-l.idle
	}
	return before >= 0
}
