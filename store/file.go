package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// File is a local folder, read by pread or as Options.Access says, through a
// bounded set of open files.
//
// A file that is replaced on disk (written beside and renamed over it) keeps
// giving its old bytes as long as its descriptor stays open: reads of one object
// are then consistent with each other, but not with the new file. A file that is
// changed in place gives whatever the system gives; checksums catch it.
type File struct {
	root   string
	fds    *Descriptors
	owned  bool          // fds is this store's own and closed with it
	past   *directReader // nil: through the page cache
	refuse error         // why nothing can be read in the way that was asked for
	closed atomic.Bool
}

// NewFile makes the store of a folder. It reads nothing: a root that is not there
// shows as nd.ErrNotFound on every read, and a way to read that cannot be had as
// nd.ErrUnsupported. A relative root is resolved once, so that a later change of
// directory does no harm.
func NewFile(root string, opts Options) *File {
	// Abs fails only where the working directory is gone; reads then say so.
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	f := &File{root: root, fds: opts.Descriptors}
	if f.fds == nil {
		f.fds, f.owned = NewDescriptors(DefaultDescriptors), true
	}
	if f.refuse = f.fds.access(opts.Access); f.refuse == nil {
		f.past = f.fds.reader(opts.Access)
	}
	return f
}

// ReadAt implements Store. What the kernel has begun cannot be cancelled; ctx is
// looked at before it.
func (f *File) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	name, err := f.name(ctx, key)
	if err != nil {
		return err
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		err := nd.Errorf(nd.ErrCorrupt, "impossible range: %d bytes at %d", len(p), off)
		return nd.At(err, nd.Place{File: name.path()})
	}
	fd, err := f.fds.acquire(ctx, name)
	if err != nil {
		return fileError(err, name.path(), off, len(p))
	}
	n, err := f.read(ctx, fd, p, off)
	switch {
	case n == len(p):
		err = nil
	case errors.Is(err, io.EOF):
		err = shortError(fd.file, name.path(), off, len(p))
	default:
		// The descriptor itself may be the trouble (ESTALE on NFS): a retry shall
		// open the file anew.
		f.fds.drop(fd)
		err = fileError(err, name.path(), off, len(p))
	}
	f.fds.release(fd)
	return err
}

func (f *File) read(ctx context.Context, fd *descriptor, p []byte, off int64) (int, error) {
	if f.past != nil {
		return f.past.readAt(ctx, fd, p, off)
	}
	return fd.file.ReadAt(p, off)
}

// Size implements Store.
func (f *File) Size(ctx context.Context, key string) (int64, error) {
	info, err := f.stat(ctx, key)
	return info.Size, err
}

// Version implements Versioned: a hash of inode, length and time of change.
func (f *File) Version(ctx context.Context, key string) (uint64, error) {
	info, err := f.stat(ctx, key)
	return versionOf(&info), err
}

func versionOf(info *syscall.Stat_t) uint64 {
	hash := uint64(14695981039346656037) // FNV-1a, a word at a time
	for _, x := range [...]uint64{info.Ino, uint64(info.Size), uint64(info.Mtim.Sec), uint64(info.Mtim.Nsec)} {
		hash = (hash ^ x) * 1099511628211
	}
	return hash
}

// stat looks at the open file: one that was replaced by another of its name is
// still the old one while its descriptor is kept.
func (f *File) stat(ctx context.Context, key string) (info syscall.Stat_t, err error) {
	name, err := f.name(ctx, key)
	if err != nil {
		return info, err
	}
	fd, err := f.fds.acquire(ctx, name)
	if err != nil {
		return info, fileError(err, name.path(), 0, 0)
	}
	defer f.fds.release(fd)
	if err := fstat(fd.file, &info); err != nil {
		f.fds.drop(fd)
		return info, fileError(err, name.path(), 0, 0)
	}
	return info, nil
}

// fstat asks the kernel without the garbage of os.File.Stat, as often as a signal
// interrupts it.
func fstat(file *os.File, info *syscall.Stat_t) error {
	for {
		if err := syscall.Fstat(int(file.Fd()), info); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// List implements Store. A symbolic link to a folder is a folder.
func (f *File) List(ctx context.Context, prefix string) ([]string, error) {
	if err := f.usable(ctx); err != nil {
		return nil, err
	}
	prefix, err := checkPrefix(prefix)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(f.root, filepath.FromSlash(prefix))
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fileError(err, path, 0, 0)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if isFolder(path, e) {
			names[i] += "/"
		}
	}
	slices.Sort(names)
	return names, nil
}

func isFolder(dir string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}

// String is the absolute path of the root.
func (f *File) String() string { return f.root }

// Stats counts the work of the store's descriptors; those that are shared are
// counted for all stores together.
func (f *File) Stats() Stats { return f.fds.Stats() }

// Close implements Store. It does not wait for reads that are under way; they
// finish and close their files.
func (f *File) Close() error {
	if f.closed.Swap(true) || !f.owned {
		return nil
	}
	return f.fds.Close()
}

func (f *File) name(ctx context.Context, key string) (objectName, error) {
	name := objectName{root: f.root, key: key, direct: f.past != nil}
	if err := f.usable(ctx); err != nil {
		return name, nd.At(err, nd.Place{File: key})
	}
	if err := CheckKey(key); err != nil {
		return name, nd.At(err, nd.Place{File: f.root})
	}
	return name, nil
}

func (f *File) usable(ctx context.Context) error {
	if f.closed.Load() {
		return nd.Errorf(nd.ErrClosed, "store %s", f.root)
	}
	if f.refuse != nil {
		return f.refuse
	}
	return ctx.Err()
}

// shortError tells how long the object really is.
func shortError(file *os.File, path string, off int64, n int) error {
	info, err := file.Stat()
	if err != nil {
		return fileError(err, path, off, n)
	}
	return endsAt(path, info.Size(), off, n)
}

func endsAt(name string, size, off int64, n int) error {
	err := nd.Errorf(nd.ErrCorrupt, "ends at byte %d, wanted %d..%d", size, off, off+int64(n))
	return nd.At(err, nd.Place{File: name, Offset: off, Length: int64(n)})
}

// fileError gives a system error its kind and place.
func fileError(err error, path string, off int64, n int) error {
	place := nd.Place{File: path, Offset: off, Length: int64(n)}
	var known *nd.Error
	var pe *fs.PathError
	switch {
	case errors.As(err, &known):
		return nd.At(err, place)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nd.At(nd.Errorf(nd.ErrNotFound, "no such object"), place)
	case errors.As(err, &pe): // its path would be said twice
		return nd.At(nd.Errorf(nd.ErrIO, "%s: %w", pe.Op, pe.Err), place)
	}
	return nd.At(err, place)
}
