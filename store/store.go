package store

import "context"

// Store is a flat set of named byte objects, read only. Keys use "/" between
// parts and are relative to the store's root. Implementations are safe for
// concurrent use. Errors carry the key and match a kind of package nd:
// nd.ErrNotFound only when the object definitely does not exist.
type Store interface {
	// ReadAt fills p with the bytes of the object from off on. An object that ends
	// before p is full is an error of kind nd.ErrCorrupt. What p holds after an
	// error is not defined.
	ReadAt(ctx context.Context, key string, p []byte, off int64) error

	// Size is the length of the object in bytes.
	Size(ctx context.Context, key string) (int64, error)

	// List names what lies directly below prefix, sorted; names of folders end in
	// "/". The prefix is a folder's key with or without a final "/", "" is the
	// root. A prefix that does not exist is nd.ErrNotFound.
	List(ctx context.Context, prefix string) ([]string, error)

	// String is the URI of the root, for messages.
	String() string

	// Close frees what the store holds. Reads after Close are nd.ErrClosed; reads
	// that are under way may still finish.
	Close() error
}

// Options are the knobs of Open. The zero value is the default.
type Options struct {
	// Descriptors bounds the open files of local stores; stores that share it
	// share the bound, and its owner closes it. nil: each store has its own of
	// DefaultDescriptors.
	Descriptors *Descriptors

	// Access is how files of local stores are read.
	Access Access

	// Retry says how I/O errors are tried again. The zero value is DefaultRetry.
	Retry RetryPolicy
}

// Stats counts what a store did since it was opened.
type Stats struct {
	Hits      uint64 // reads that found their file open
	Misses    uint64 // reads that had to open it
	Evictions uint64 // files closed to make room
	Open      int    // files open now
	Retries   uint64 // calls repeated after an I/O error

	Direct  uint64 // reads that went past the page cache
	Refused uint64 // files that were to be read so and refuse it
	Blocks  int    // blocks of BlockBytes that such reads hold now
	Enters  uint64 // calls of io_uring_enter
}

// Mapper is a store whose objects can be mapped into memory.
type Mapper interface {
	// Map maps n bytes of an object from off on, a multiple of MapGrain, read-only,
	// and gives the version of the object that it mapped. The memory must not be
	// touched by the CPU: if the object is cut short that is a fault. It stays valid
	// when the object is replaced or the store closed, until Unmap.
	Map(ctx context.Context, key string, off, n int64) (mem []byte, version uint64, err error)
	// Resident reports whether a range of an object is in the page cache, as far as a
	// look at a byte of each 64 KiB tells.
	Resident(ctx context.Context, key string, off, n int64) (bool, error)
}

// MapGrain is what the offset of a mapping is a multiple of: the largest page of
// the systems that we know.
const MapGrain = 64 << 10

// Versioned is a store that can tell whether an object is still the one that it
// was. Not every store can.
type Versioned interface {
	// Version is a number that changes when the object is written or replaced.
	// Errors are those of Store.Size.
	Version(ctx context.Context, key string) (uint64, error)
}
