package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the calling thread has run so far; it must be locked to its
// goroutine. Time in which others have the core is not in it.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
