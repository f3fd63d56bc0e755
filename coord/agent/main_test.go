package agent

import (
	flags "flag"
	"os"
	"testing"
)

// TestMain runs more tests beside each other than there are cores: those that are parallel wait
// for timers and for the network most of the time. Those that measure memory, goroutines or how
// long a thing takes, and those that have the time of a bubble, run by themselves before.
func TestMain(m *testing.M) {
	flags.Parse()
	if f := flags.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("6")
	}
	os.Exit(m.Run())
}
