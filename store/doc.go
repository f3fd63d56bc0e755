// Package store says where bytes are: named objects below a root, read by
// ranges, never written.
//
//	Open(uri) -> Retry( File | Memory | … ) -> ReadAt(key, p, off)
//
// A store does no caching of bytes, no coalescing and starts no goroutine, save
// the one that owns an io_uring: the caller decides how many reads run at once. A
// local store bounds its open files (Descriptors), several stores may share one
// bound. How files are read (Access) is the caller's choice and never changes what
// is read:
//
//	Buffered  pread                                   file.go
//	Direct    pread past the page cache               direct.go, blocks.go
//	Uring     the same, one ring for all callers      uring.go, with the tag uring
//
// What an object is does not depend on the store: a folder is not an object, so
// a key that names one is nd.ErrNotFound on a disk as it is in memory or on an
// object store. A key is a plain relative path (see CheckKey); it cannot leave
// the root.
//
// Errors. nd.ErrNotFound: there is definitely no such object. nd.ErrCorrupt: the
// object ends before the wanted range does. nd.ErrIO: everything else that the
// system reports; Retry tries those again that may pass. nd.ErrClosed: the store
// was closed. Context errors pass unchanged.
package store
