//go:build !cgo || !linux

package cudatest

import "testing"

// Control stands for the switches in builds that cannot load the library.
type Control struct{}

// Supported skips the test in builds that cannot load a fake library.
func Supported(t testing.TB) {
	t.Helper()
	t.Skip("the fake libraries need Linux and cgo")
}

// Load loads nothing here.
func Load(testing.TB, string, string) Control { return Control{} }

// Call does nothing here.
func (Control) Call(_, _ string, _, _ int) int { return 0 }

// Complaints is empty here.
func (Control) Complaints() []string { return nil }
