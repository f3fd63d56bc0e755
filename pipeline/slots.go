package pipeline

import "errors"

// newSlots takes the memory of n batches of size bytes.
func newSlots(n int, size int64) (*slots, error) {
	s := &slots{}
	for range n {
		mem, err := allocate(size)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		sl := &slot{mem: mem}
		s.free = append(s.free, sl)
	}
	return s, nil
}

// take gives a free slot to a batch in the making, nil if there is none.
func (s *slots) take() *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 || s.closed {
		return nil
	}
	sl := s.free[n-1]
	s.free = s.free[:n-1]
	return sl
}

// give takes a slot back; its memory may be written again once after has
// happened. After close the memory goes back to the system instead.
func (s *slots) give(sl *slot, after Event) {
	if s.keep(sl, after) {
		return
	}
	if after != nil {
		after.Wait() //nolint:errcheck // a lost device has no more use of the memory either
	}
	free(sl.mem) //nolint:errcheck // the address is ours, munmap cannot fail
	sl.mem = nil
}

// keep puts a slot among the free ones; false after close.
func (s *slots) keep(sl *slot, after Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if after != nil {
		sl.after = after
		sl.dirty.Store(true)
	}
	s.free = append(s.free, sl)
	return true
}

// close frees the slots that nobody holds; the others follow when given back.
func (s *slots) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, sl := range s.free {
		errs = append(errs, free(sl.mem))
		sl.mem = nil
	}
	s.free = nil
	return errors.Join(errs...)
}
