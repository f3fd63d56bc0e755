// Package testwait has tests wait for what can only be looked at, not listened to: without a
// busy loop, which takes the core that others need to get there, and not for ever.
package testwait

import (
	"testing"
	"time"
)

const (
	// tick is between two looks: little beside what a process takes to start.
	tick = 2 * time.Millisecond
	// patience is for machines that have much else to do.
	patience = time.Minute
)

// Until returns when yes is true, and fails the test if it never is. What says what is waited for.
func Until(t testing.TB, what string, yes func() bool) {
	t.Helper()
	look := time.NewTicker(tick)
	defer look.Stop()
	for late := time.After(patience); !yes(); {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}
