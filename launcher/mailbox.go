package launcher

import "sync"

// mailbox is a queue of events without a bound, so that no sender waits: a sender
// may be the thread that the receiver waits for.
type mailbox struct {
	ready chan struct{} // holds one token while events may be there
	mu    struct {
		sync.Mutex
		events []event
	}
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(e event) {
	m.mu.Lock()
	m.mu.events = append(m.mu.events, e)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take waits for events and empties the box.
func (m *mailbox) take() []event {
	<-m.ready
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.mu.events
	m.mu.events = nil
	return events
}
