//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

func temporary(target string) (*os.File, string, error) { return named(target) }

func link(*os.File, string) error { return errors.ErrUnsupported }

func hold(*os.File) (bool, error) { return false, errors.ErrUnsupported }
