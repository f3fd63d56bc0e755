package fence

import "github.com/headrace/headrace/agentapi"

// Changed is closed at the next change of what Newest, Interrupted, Waiting and Err tell: another
// view, a halt, a redo that is agreed, another reason to wait, the end. A trainer may so hear that a rank is
// lost while it waits for that one in a collective, and not only by its next Lease. Ask for the
// channel first, then look: what has changed before may not change again.
func (f *Fence) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.news
}

// Interrupted reports whether this rank's step is in vain: a rank was lost, a redo was agreed, the
// job is over or its part has ended, since it entered its view. Its collectives are to be aborted: they may wait
// for a rank that does not come. A view in which ranks only come interrupts nothing.
func (f *Fence) Interrupted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.in && f.interrupted()
}

// interrupted is for a rank that has entered a view. f.mu is held.
func (f *Fence) interrupted() bool {
	s := &f.mu.state
	return s.Ending != "" || s.Over || s.Halted || s.Redo != f.mu.entered.redo
}

// Err is why this rank has no part in the job any more, nil while it has one.
func (f *Fence) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.state.Ending == "" {
		return nil
	}
	return ended(&f.mu.state)
}

// news is what of a state is told by Changed: not how far the leases reach, nor the lane, which
// change many times a second.
type news struct {
	entry
	rank, world     int
	halted, over    bool
	waiting, ending string
}

func newsOf(s *agentapi.JobState) news {
	return news{entryOf(s), s.Rank, s.World, s.Halted, s.Over, s.Waiting, s.Ending}
}

// announce wakes those who wait for a change of the state. f.mu is held.
func (f *Fence) announce(before news) {
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
	if newsOf(&f.mu.state) != before {
		close(f.mu.news)
		f.mu.news = make(chan struct{})
	}
}

// end is the end of the rank's part by its own Close.
func (f *Fence) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := newsOf(&f.mu.state)
	f.mu.left = true
	if f.mu.state.Ending == "" {
		f.mu.state.Ending = "it has left"
	}
	f.allow()
	f.announce(before)
}
