//go:build !cgo || !linux

package nvcomp

import "github.com/headrace/headrace/cuda"

// library stands for nvCOMP in builds that cannot call it.
type library struct{}

func openLibrary(string) (lib library, version int, code loadStatus, text string) {
	return lib, 0, loadNoLibrary, "this build of headrace has no cgo"
}

func (library) call(cuda.Lent, call, *words) int { return 0 }
