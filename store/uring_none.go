//go:build !uring || !linux

package store

import (
	"os"

	"github.com/headrace/headrace/nd"
)

// HasUring says whether the program was built with the reader of Uring.
const HasUring = false

type request struct{}

func newRequest() request { return request{} }

// ring stands for the one of builds with the tag uring.
type ring struct{}

func newRing(int) (*ring, error) {
	return nil, nd.Errorf(nd.ErrUnsupported, "this program was built without io_uring: build it with -tags uring -ldflags=-checklinkname=0 on Linux")
}

func (*ring) read(*os.File, *block, int, int64) (int, error) { panic("no ring was made") }

func (*ring) close() {}

func (*ring) enters() uint64 { return 0 }
