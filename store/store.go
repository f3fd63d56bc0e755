package store

import "context"

// Store is a flat set of named byte objects, read only. Keys use "/" between
// parts and are relative to the store's root. Implementations are safe for
// concurrent use. Errors carry the key and match a kind of package nd:
// nd.ErrNotFound only when the object definitely does not exist.
type Store interface {
	// ReadAt fills p with the bytes of the object from off on. An object that ends
	// before p is full is an error of kind nd.ErrCorrupt.
	ReadAt(ctx context.Context, key string, p []byte, off int64) error

	// Size is the length of the object in bytes.
	Size(ctx context.Context, key string) (int64, error)

	// List names what lies directly below prefix, sorted; names of folders end in
	// "/". A prefix that does not exist is nd.ErrNotFound.
	List(ctx context.Context, prefix string) ([]string, error)

	// String is the URI of the root, for messages.
	String() string

	// Close frees what the store holds. Reads after Close are nd.ErrClosed.
	Close() error
}
