// Package zarr is the zarr format, versions 2 and 3, from bytes to meaning.
//
//	zarr.json | .zarray (+ .zattrs)          shape, type, fill, keys, codecs
//	        |  ParseArray                            |
//	        v                                        v
//	Array.Levels   [0] stored objects   --Key-->  "c/0/1", "0.1"
//	               [1] chunks in a shard  <--IndexOf, Index.Parse-- its index
//	               ...
//	               [n] leaf chunks      --Filters, Bytes, Big, Order--> elements
//
// An array is cut into a grid of objects. With sharding, each object is cut again
// into a grid of chunks, which may be cut again: each cut is a Level. Codecs are
// sorted by what a reader does with them: transposes (and v2 order "F") become
// Level.Order, other array->array codecs Level.Filters, the byte order Level.Big
// and bytes->bytes codecs Level.Bytes. To decode a leaf chunk, undo Bytes from
// last to first, then Filters from last to first; the elements then lie in C
// order of the stored axes: stored axis i is axis Order[i] of the array.
//
// All coordinates, boxes and chunk extents are in the axes of the array; only
// Index.Counts is in stored axes. Coordinates of a level count from the origin of
// the array, so the chunk that holds element x is x/Chunk on each axis, whatever
// the nesting. Nothing is allocated in proportion to the number of chunks.
//
// Metadata that contradict the format are nd.ErrCorrupt. Legal metadata that
// headrace does not read are nd.ErrUnsupported, naming the part. What has one
// meaning although the specification forbids it is accepted with a note.
// Codec names are not judged here unless their place in the chain is wrong:
// package codec knows what it can decode.
//
// The package does no I/O and starts no goroutine; all of its values are
// immutable after parsing, and safe for concurrent use.
package zarr
