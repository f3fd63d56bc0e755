//go:build coordfault

package coord

type faults struct{ fault Fault }

func (f faults) has(x Fault) bool { return f.fault == x }

// Break switches a bug on.
func (m *Machine) Break(f Fault) { m.faults.fault = f }
