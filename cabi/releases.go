package main

import (
	"os"
	"sync"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// releases takes back the batches that are out. The client library sends the
// token of a batch, eight bytes, when its last holder drops it (see
// client/headrace_client.h); one goroutine reads the tokens.
//
// There is one pipe for the whole process and it is never closed: a tensor may
// outlive its batch, its pipeline and the interpreter, and a library with a Go
// runtime in it cannot be unloaded anyway. The write end blocks: a burst of more
// tokens than the pipe holds waits for the reader, which needs no lock of Python's.
type releases struct {
	once  sync.Once
	write int
	err   error
}

// releaseFD is where tokens are written to; the first use starts the reader.
func (l *library) releaseFD() (int, error) {
	r := &l.releases
	r.once.Do(func() {
		var fds [2]int
		if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
			r.err = nd.Errorf(nd.ErrIO, "making the release pipe: %w", err)
			return
		}
		r.write = fds[1]
		// Not blocking, so that the goroutine waits in the poller and holds no thread.
		if err := syscall.SetNonblock(fds[0], true); err != nil {
			r.err = nd.Errorf(nd.ErrIO, "release pipe: %w", err)
			return
		}
		go l.TakeBack(os.NewFile(uintptr(fds[0]), "headrace release pipe"))
	})
	return r.write, r.err
}
