//go:build !linux

package store

import (
	"errors"
	"os"

	"github.com/headrace/headrace/nd"
)

func directSupported() error {
	return nd.Errorf(nd.ErrUnsupported, "reading past the page cache is for Linux only: read through it")
}

func directAlign(*os.File) (int64, bool) { return 0, false }

func setDirect(*os.File, bool) error { return errors.ErrUnsupported }

func pread(*os.File, *block, int, int64) (int, error) { return 0, errors.ErrUnsupported }

func mapBlock() ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapBlock([]byte) error { return nil }
