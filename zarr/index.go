package zarr

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/headrace/headrace/nd"
)

const (
	entrySize    = 16 // two uint64
	checksumSize = 4
)

// Entry is the byte range of a chunk within its shard, counted from the first
// byte of the shard wherever the index lies.
type Entry struct{ Offset, Length uint64 }

// Missing reports whether the chunk is not stored: its elements are the fill
// value.
func (e Entry) Missing() bool {
	return e.Offset == math.MaxUint64 && e.Length == math.MaxUint64
}

// Entries is the number of chunks in a shard.
func (ix *Index) Entries() int64 {
	n, _ := nd.Product(ix.Counts) // the parser refuses an overflow
	return n
}

// Size is the number of bytes of the encoded index.
func (ix *Index) Size() int64 {
	n := ix.Entries() * entrySize
	if ix.Checksum {
		n += checksumSize
	}
	return n
}

// Offset is where the index starts in a shard of the given size.
func (ix *Index) Offset(object int64) int64 {
	if ix.AtStart {
		return 0
	}
	return object - ix.Size()
}

// Parse appends the entries of an encoded index to dst, in C order of Counts.
// raw is the index alone, object the size in bytes of the shard that it came
// from. Every entry is checked: one that is missing by half, empty, outside the
// shard or inside the index makes the whole index corrupt.
func (ix *Index) Parse(dst []Entry, raw []byte, object int64) ([]Entry, error) {
	table, err := ix.table(raw, object)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, len(table)/entrySize)
	if ix.Order == nil {
		dst = ix.appendStraight(dst, table)
	} else {
		dst = ix.appendTransposed(dst, table)
	}
	at := Entry{uint64(ix.Offset(object)), uint64(ix.Size())}
	for i, e := range dst[start:] {
		if err := e.check(uint64(object), at); err != nil {
			return dst[:start], corrupt("shard index entry %d of %v: %w", i, ix.Counts, err)
		}
	}
	return dst, nil
}

// table is the encoded index without its checksum, which it verifies.
func (ix *Index) table(raw []byte, object int64) ([]byte, error) {
	size := ix.Size()
	if object < size {
		return nil, corrupt("shard of %d bytes is smaller than its index of %d: an interrupted write", object, size)
	}
	if int64(len(raw)) != size {
		return nil, corrupt("shard index of %d bytes, expected %d", len(raw), size)
	}
	if !ix.Checksum {
		return raw, nil
	}
	table, tail := raw[:size-checksumSize], raw[size-checksumSize:]
	got := crc32.Checksum(table, crc32.MakeTable(crc32.Castagnoli))
	if want := binary.LittleEndian.Uint32(tail); got != want {
		return nil, corrupt("shard index checksum is %08x, expected %08x", got, want)
	}
	return table, nil
}

func (ix *Index) byteOrder() binary.ByteOrder {
	if ix.Big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (ix *Index) appendStraight(dst []Entry, table []byte) []Entry {
	if ix.Big {
		for ; len(table) >= entrySize; table = table[entrySize:] {
			dst = append(dst, Entry{binary.BigEndian.Uint64(table), binary.BigEndian.Uint64(table[8:])})
		}
		return dst
	}
	for ; len(table) >= entrySize; table = table[entrySize:] {
		dst = append(dst, Entry{binary.LittleEndian.Uint64(table), binary.LittleEndian.Uint64(table[8:])})
	}
	return dst
}

// appendTransposed walks the entries in C order of Counts and finds the two
// words of each in the transposed table, where stored axis i is axis Order[i].
func (ix *Index) appendTransposed(dst []Entry, table []byte) []Entry {
	extents := append(slices.Clone(ix.Counts), 2)
	strides := make([]int64, len(extents)) // in bytes, of the axes of extents
	step := int64(8)
	for _, axis := range slices.Backward(ix.Order) {
		strides[axis] = step
		step *= extents[axis]
	}
	order := ix.byteOrder()
	pair := strides[len(strides)-1]
	coord := make([]int64, len(ix.Counts))
	at := int64(0)
	for range ix.Entries() {
		dst = append(dst, Entry{order.Uint64(table[at:]), order.Uint64(table[at+pair:])})
		for axis := len(coord) - 1; axis >= 0; axis-- {
			coord[axis]++
			at += strides[axis]
			if coord[axis] < ix.Counts[axis] {
				break
			}
			at -= coord[axis] * strides[axis]
			coord[axis] = 0
		}
	}
	return dst
}

// check validates the entry of a chunk in a shard of object bytes, whose index
// lies at index.
func (e Entry) check(object uint64, index Entry) error {
	switch {
	case e.Missing():
		return nil
	case e.Offset == math.MaxUint64 || e.Length == math.MaxUint64:
		return fmt.Errorf("offset %d with length %d: one word alone says missing", e.Offset, e.Length)
	case e.Length == 0:
		return fmt.Errorf("no bytes at offset %d", e.Offset)
	case e.Offset > object || e.Length > object-e.Offset:
		return fmt.Errorf("bytes %d+%d lie outside the shard of %d bytes", e.Offset, e.Length, object)
	case e.Offset < index.Offset+index.Length && e.Offset+e.Length > index.Offset:
		return fmt.Errorf("bytes %d+%d overlap the index at %d+%d", e.Offset, e.Length, index.Offset, index.Length)
	}
	return nil
}
