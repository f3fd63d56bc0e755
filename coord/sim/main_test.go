package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage seldom: a run's heap is a few megabytes, all of it short-lived,
// and half the time would go into marking it.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
	os.Exit(m.Run())
}
