//go:build !uring || !linux

package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// Without its tag the ring is refused in one line that says how to get it.
func TestUringNeedsItsTag(t *testing.T) {
	_, err := store.Open(t.TempDir(), store.Options{Access: store.Uring})
	if !errors.Is(err, nd.ErrUnsupported) || !strings.Contains(err.Error(), "-tags uring") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
