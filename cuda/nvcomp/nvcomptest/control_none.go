//go:build !cgo || !linux

package nvcomptest

import "testing"

// control stands for the switches in builds that cannot load the library.
type control struct{}

func supported(t testing.TB) {
	t.Helper()
	t.Skip("the fake nvCOMP needs Linux and cgo")
}

func open(testing.TB, string) control { return control{} }

func (control) call(_, _ string, _, _ int) int { return 0 }

func (control) complaints() []string { return nil }
