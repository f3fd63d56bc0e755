package store

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync/atomic"
	"syscall"
)

// directReader reads ranges of files past the page cache. The kernel takes only
// ranges whose ends lie at multiples of the file's block, into memory that is
// aligned as well: each range is widened, read into a block of the pool and
// copied from there.
type directReader struct {
	blocks *blocks
	counts *directCounts
	// read reads n bytes of a file into a block, as pread does, and retries what a
	// signal interrupts.
	read func(file *os.File, b *block, n int, off int64) (int, error)
}

type directCounts struct {
	reads   atomic.Uint64
	refused atomic.Uint64
}

// maxAlign is the largest alignment that a file may ask for: a part of a block
// and of every page size, so that blocks fit.
const maxAlign = 64 << 10

// begin turns a file that was just opened to direct reads. One that refuses is
// read through the page cache from then on.
//
// The flag is set on the one descriptor of the file, instead of opening a second:
// the bound of open files holds as it is, and length, version and bytes are of
// the same file even when it is replaced meanwhile.
func (r *directCounts) begin(fd *descriptor) {
	align, ok := directAlign(fd.file)
	if !ok || setDirect(fd.file, true) != nil {
		r.refused.Add(1)
		return
	}
	fd.align = align
	fd.direct.Store(true)
}

// refuse reads the file through the page cache from now on. Reads that are under
// way do not mind.
func (r *directCounts) refuse(fd *descriptor) {
	if fd.direct.CompareAndSwap(true, false) {
		r.refused.Add(1)
		_ = setDirect(fd.file, false) // if it fails, so does the read that follows, and says why
	}
}

// readAt is os.File.ReadAt, past the page cache where the file allows it.
func (r *directReader) readAt(ctx context.Context, fd *descriptor, p []byte, off int64) (int, error) {
	if len(p) == 0 || !fd.direct.Load() {
		return fd.file.ReadAt(p, off)
	}
	b, err := r.blocks.take(ctx)
	if err != nil {
		return 0, err
	}
	defer r.blocks.put(b)
	n := 0
	for n < len(p) {
		got, err := r.piece(fd, b, p[n:], off+int64(n))
		n += got
		if errors.Is(err, errRefused) {
			r.counts.refuse(fd)
			got, err = fd.file.ReadAt(p[n:], off+int64(n))
			return n + got, err
		}
		if err != nil {
			return n, err
		}
	}
	r.counts.reads.Add(1)
	return n, nil
}

// errRefused is given for a file that cannot be read on past the page cache.
var errRefused = errors.New("no direct read")

// piece reads the beginning of p, at most a block of it and at least a byte.
func (r *directReader) piece(fd *descriptor, b *block, p []byte, off int64) (int, error) {
	start := off &^ (fd.align - 1)
	if start > math.MaxInt64-BlockBytes {
		return 0, io.EOF // no file is so long, and its end could not be said
	}
	skip := int(off - start)
	want := len(b.mem)
	if n := skip + len(p); n < want {
		want = (n + int(fd.align) - 1) &^ int(fd.align-1)
	}
	got, err := r.read(fd.file, b, want, start)
	switch {
	case err != nil:
		return 0, readError(err, fd)
	case got <= skip:
		return 0, atEnd(fd, off)
	}
	return copy(p, b.mem[skip:got]), nil
}

// readError makes an error number what os.File makes of it.
func readError(err error, fd *descriptor) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, syscall.EINVAL):
		return errRefused
	case errors.As(err, &errno):
		return &os.PathError{Op: "read", Path: fd.file.Name(), Err: errno}
	}
	return err
}

// atEnd tells the end of a file from a short read that brought nothing new: the
// page cache can begin anywhere.
func atEnd(fd *descriptor, off int64) error {
	var info syscall.Stat_t
	if err := fstat(fd.file, &info); err != nil {
		return &os.PathError{Op: "stat", Path: fd.file.Name(), Err: err}
	}
	if off < info.Size {
		return errRefused
	}
	return io.EOF
}
