package metrics

import "time"

// SlowAnswer sets the time that a client has to read an answer.
func (o *Options) SlowAnswer(d time.Duration) { o.answer = d }
