package store

import (
	"container/list"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// DefaultDescriptors is the number of files a local store keeps open. A batch
// window touches some tens to hundreds of shards, and an open costs 4-5 µs on a
// local disk and a round trip on a network file system, so a window should fit;
// half of the usual soft limit of 1024 stays free for the trainer.
const DefaultDescriptors = 512

// Descriptors is a set of open files with a fixed bound. Files that nobody reads
// stay open until their place is needed, the least recently used goes first. A
// file in use is never closed; when all are in use, opening one more waits.
//
// It is safe for concurrent use and may serve several stores.
type Descriptors struct {
	limit int
	open  func(path string) (*os.File, error)

	mu struct {
		sync.Mutex
		byName map[objectName]*descriptor
		recent *list.List    // of the *descriptor in byName, least recently used first
		count  int           // files open or being opened or closed, never above limit
		freed  chan struct{} // what waiters wait for, nil without waiters; closed when room may have come up
		closed bool
		stats  Stats
	}

	// past is what reads past the page cache need, made when a store asks for it.
	past struct {
		sync.Mutex
		blocks *blocks
		ring   *ring
		closed bool
	}
	counts directCounts
}

// objectName is a file below a root, opened for direct reads or not. The parts are
// kept apart so that finding an open file builds no string.
type objectName struct {
	root, key string
	direct    bool
}

func (o objectName) path() string {
	return o.root + string(filepath.Separator) + filepath.FromSlash(o.key)
}

// descriptor is one open file. users and place belong to the set's mutex.
type descriptor struct {
	name  objectName
	ready chan struct{} // closed once file and err are set
	file  *os.File
	err   error

	direct atomic.Bool // reads go past the page cache
	align  int64       // of such reads

	users int
	place *list.Element // in recent; nil once dropped, the last user then closes it
}

// NewDescriptors makes a set of at most limit open files, 0 for
// DefaultDescriptors. The limit is cut to half of the process's RLIMIT_NOFILE:
// the rest is the trainer's.
func NewDescriptors(limit int) *Descriptors {
	if limit <= 0 {
		limit = DefaultDescriptors
	}
	return newDescriptors(min(limit, max(1, openFileLimit()/2)), openObject)
}

func newDescriptors(limit int, open func(string) (*os.File, error)) *Descriptors {
	d := &Descriptors{limit: limit, open: open}
	d.mu.byName = make(map[objectName]*descriptor)
	d.mu.recent = list.New()
	return d
}

// openFileLimit is RLIMIT_NOFILE. The Go runtime has raised the soft limit to
// the hard one at start.
func openFileLimit() int {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 1024 // the usual soft limit
	}
	return int(min(lim.Cur, 1<<30))
}

// openObject opens a regular file. O_NONBLOCK keeps the open of a FIFO from
// waiting for its writer; it means nothing for a regular file.
func openObject(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if link := brokenLink(path); link != "" {
			return nil, nd.Errorf(nd.ErrIO, "the link %s leads nowhere: is the disk of its target mounted?", link)
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = nd.Errorf(nd.ErrCorrupt, "a folder lies where an object should be")
	case !info.Mode().IsRegular():
		err = nd.Errorf(nd.ErrIO, "not a regular file (%s)", info.Mode().Type())
	default:
		return file, nil
	}
	_ = file.Close() // nothing was written
	return nil, err
}

// brokenLink is the symbolic link on the way to a path that keeps it from being
// there, "" if there is none. A disk that is not mounted must not pass for chunks
// that were never written.
func brokenLink(path string) string {
	for {
		info, err := os.Lstat(path)
		if up := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && up != path {
			path = up
			continue
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return ""
		}
		if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return path
		}
		return ""
	}
}

// acquire gives the open file of a name; the caller must release it. Callers
// that want the same file at once share one open and its error.
func (d *Descriptors) acquire(ctx context.Context, name objectName) (*descriptor, error) {
	for {
		r, err := d.reserve(name)
		switch {
		case err != nil:
			return nil, err
		case r.full != nil:
			select {
			case <-r.full:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case r.mine:
			return d.openMine(r.fd, r.victim)
		}
		return d.await(ctx, r.fd)
	}
}

// reservation is what reserve found: a descriptor of which the caller is now a
// user, and which it must open if it is mine, after closing the victim whose
// place it takes; or a channel to wait for where every place is in use.
type reservation struct {
	fd     *descriptor
	mine   bool
	victim *descriptor
	full   <-chan struct{}
}

func (d *Descriptors) reserve(name objectName) (reservation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return reservation{}, nd.Errorf(nd.ErrClosed, "the set of open files")
	}
	if fd, ok := d.mu.byName[name]; ok {
		d.mu.stats.Hits++
		fd.users++
		d.mu.recent.MoveToBack(fd.place)
		return reservation{fd: fd}, nil
	}
	var victim *descriptor
	if d.mu.count < d.limit {
		d.mu.count++
	} else if victim = d.oldestIdleLocked(); victim != nil {
		d.detachLocked(victim)
		d.mu.stats.Evictions++
	} else {
		if d.mu.freed == nil {
			d.mu.freed = make(chan struct{})
		}
		return reservation{full: d.mu.freed}, nil
	}
	d.mu.stats.Misses++
	fd := &descriptor{name: name, ready: make(chan struct{}), users: 1}
	fd.place = d.mu.recent.PushBack(fd)
	d.mu.byName[name] = fd
	return reservation{fd: fd, mine: true, victim: victim}, nil
}

// oldestIdleLocked passes over files in use: as many as there are readers, and
// mostly at the other end of the list.
func (d *Descriptors) oldestIdleLocked() *descriptor {
	for e := d.mu.recent.Front(); e != nil; e = e.Next() {
		if fd := e.Value.(*descriptor); fd.users == 0 {
			return fd
		}
	}
	return nil
}

// await waits until another caller has opened fd.
func (d *Descriptors) await(ctx context.Context, fd *descriptor) (*descriptor, error) {
	select {
	case <-fd.ready:
	case <-ctx.Done():
		d.release(fd)
		return nil, ctx.Err()
	}
	if err := fd.err; err != nil {
		d.release(fd)
		return nil, err
	}
	return fd, nil
}

// openMine opens what reserve handed out. The victim is closed first, so that
// the number of open files never passes the limit.
func (d *Descriptors) openMine(fd, victim *descriptor) (*descriptor, error) {
	if victim != nil {
		_ = victim.file.Close() // read only: nothing can be lost
	}
	file, err := d.open(fd.name.path())
	fd.file, fd.err = file, err
	if err == nil && fd.name.direct {
		d.counts.begin(fd)
	}
	close(fd.ready)
	if err != nil {
		d.drop(fd)
		d.release(fd)
		return nil, err
	}
	return fd, nil
}

// drop makes the next acquire of this name open it anew. The caller still holds
// fd and releases it as usual.
func (d *Descriptors) drop(fd *descriptor) {
	d.mu.Lock()
	d.detachLocked(fd)
	d.mu.Unlock()
}

func (d *Descriptors) detachLocked(fd *descriptor) {
	if fd.place == nil {
		return
	}
	d.mu.recent.Remove(fd.place)
	fd.place = nil
	delete(d.mu.byName, fd.name)
}

// release ends one use of fd.
func (d *Descriptors) release(fd *descriptor) {
	d.mu.Lock()
	fd.users--
	if fd.users > 0 {
		d.mu.Unlock()
		return
	}
	if fd.place != nil {
		d.wakeLocked()
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	if fd.file != nil {
		_ = fd.file.Close()
	}
	d.mu.Lock()
	d.mu.count--
	d.wakeLocked()
	d.mu.Unlock()
}

// wakeLocked wakes those who wait for room; they look again.
func (d *Descriptors) wakeLocked() {
	if d.mu.freed != nil {
		close(d.mu.freed)
		d.mu.freed = nil
	}
}

// Stats counts hits, misses and evictions and says how many files are open.
func (d *Descriptors) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.mu.stats
	s.Open = d.mu.count
	s.Direct, s.Refused = d.counts.reads.Load(), d.counts.refused.Load()
	d.past.Lock()
	defer d.past.Unlock()
	if d.past.blocks != nil {
		s.Blocks = int(d.past.blocks.mapped.Load())
	}
	if d.past.ring != nil {
		s.Enters = d.past.ring.enters()
	}
	return s
}

// Close closes the idle files and lets every later acquire fail with
// nd.ErrClosed. Files in use are closed by their last user. Reads that a ring has
// in hand are cancelled, and Close waits until the kernel has let go of them.
// Closing twice is fine.
func (d *Descriptors) Close() error {
	d.mu.Lock()
	d.mu.closed = true
	var idle []*descriptor
	for _, fd := range d.mu.byName {
		if fd.users == 0 {
			idle = append(idle, fd)
		}
		d.detachLocked(fd)
	}
	d.mu.count -= len(idle)
	d.wakeLocked()
	d.mu.Unlock()
	var errs []error
	for _, fd := range idle {
		errs = append(errs, fd.file.Close())
	}
	d.closeAccess()
	return errors.Join(errs...)
}
