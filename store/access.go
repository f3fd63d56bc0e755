package store

import (
	"github.com/headrace/headrace/nd"
)

// Access is how a local store reads its files. It never changes what is read.
type Access uint8

const (
	// Buffered reads through the page cache: best for what is read again, or was
	// just written.
	Buffered Access = iota
	// Direct reads past the page cache (O_DIRECT), for cold files: less work for the
	// CPU, and nothing of value is pushed out of the cache. Files that refuse it are
	// read as Buffered.
	Direct
	// Uring is Direct through one io_uring for all callers. It needs Linux, a kernel
	// that allows it, and a program that was built with the tag uring.
	Uring
)

// String is the name of the way.
func (a Access) String() string {
	if names := [...]string{"buffered", "direct", "uring"}; int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// access gives the set what stores of a way need, on the first call for it.
func (d *Descriptors) access(a Access) error {
	if a == Buffered {
		return nil
	}
	if a > Uring {
		return nd.Errorf(nd.ErrConfig, "unknown way %d to read files", a)
	}
	d.past.Lock()
	defer d.past.Unlock()
	if d.past.closed {
		return nd.Errorf(nd.ErrClosed, "the set of open files")
	}
	if d.past.blocks == nil {
		if err := directSupported(); err != nil {
			return err
		}
		d.past.blocks = newBlocks(maxBlocks)
	}
	if a == Uring && d.past.ring == nil {
		r, err := newRing(maxBlocks)
		if err != nil {
			return err
		}
		d.past.ring = r
	}
	return nil
}

// reader is what reads files in a way; nil for Buffered.
func (d *Descriptors) reader(a Access) *directReader {
	if a == Buffered {
		return nil
	}
	d.past.Lock()
	defer d.past.Unlock()
	r := &directReader{blocks: d.past.blocks, counts: &d.counts, read: pread}
	if a == Uring {
		r.read = d.past.ring.read
	}
	return r
}

// closeAccess ends the ring before the memory that it reads into.
func (d *Descriptors) closeAccess() {
	d.past.Lock()
	d.past.closed = true
	ring, blocks := d.past.ring, d.past.blocks
	d.past.Unlock()
	if ring != nil {
		ring.close()
	}
	if blocks != nil {
		blocks.close()
	}
}
