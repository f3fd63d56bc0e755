//go:build !cgo || !linux

package cuda

// library stands for the driver in builds that cannot call it.
type library struct{}

func openLibrary(string) (lib library, version, code int, text string) {
	return lib, 0, codeNoLibrary, "this build of headrace has no cgo"
}

func (library) canBatch() bool { return false }

func (library) pushPop() (push, pop uintptr) { return 0, 0 }

func (library) call(uint64, op, *words, []byte) int { return codeNoLibrary }

func (library) run(uint64, []uint64, *[2]uint64) int { return codeNoLibrary }
