package sim

import "time"

// Picture is the timeline of a run.
type Picture struct{}

func (p *Picture) saw(time.Duration, int, uint64) {}
func (p *Picture) lost(time.Duration, int)        {}
func (p *Picture) work(time.Duration, int)        {}
