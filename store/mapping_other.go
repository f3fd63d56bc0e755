//go:build !linux

package store

import (
	"github.com/headrace/headrace/nd"
)

// Unmap ends a mapping of Map.
func Unmap([]byte) error { return nil }

// Resident reports whether all of a mapping is in the page cache.
func Resident([]byte) (bool, error) {
	return false, nd.Errorf(nd.ErrUnsupported, "no mappings on this system")
}
