//go:build !linux

package store

import (
	"context"

	"github.com/headrace/headrace/nd"
)

// Mapper is a Store whose objects can be mapped into memory: on Linux alone.
type Mapper interface {
	Store
	Map(ctx context.Context, key string, off, n int64) (mem []byte, version uint64, err error)
}

// MapGrain is what the offset of a mapping is a multiple of.
const MapGrain = 64 << 10

// Unmap ends a mapping of Map.
func Unmap([]byte) error { return nil }

// Resident reports whether all of a mapping is in the page cache.
func Resident([]byte) (bool, error) {
	return false, nd.Errorf(nd.ErrUnsupported, "no mappings on this system")
}
