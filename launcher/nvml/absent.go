//go:build !nvml || !cgo || !linux

package nvml

// Library is the part of the package that a build with the tag nvml has.
func Library() ([]GPU, error) { return nil, ErrAbsent }
