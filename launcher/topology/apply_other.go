//go:build !linux

package topology

import "errors"

// Apply is for Linux.
func (b Binding) Apply() (undo func() error, err error) {
	return func() error { return nil }, b.ApplyTo(0)
}

// ApplyTo is for Linux.
func (b Binding) ApplyTo(int) error {
	if len(b.CPUs) == 0 {
		return nil
	}
	return errors.New("binding to CPUs needs Linux")
}
