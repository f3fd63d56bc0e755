package zarr

import (
	"encoding/binary"
	"hash/crc32"
)

// encodeIndex writes a shard index the long way: the table as a flat list of
// words in C order of [counts..., 2], each word then put where the transpose
// sends it. It is the opposite of Index.Parse and shares no code with it.
func encodeIndex(ix *Index, entries []Entry) []byte {
	shape := append(append([]int64{}, ix.Counts...), 2)
	var words []uint64
	for _, e := range entries {
		words = append(words, e.Offset, e.Length)
	}
	order := ix.Order
	if order == nil {
		order = identity(len(shape))
	}
	stored := make([]int64, len(shape))
	for i, axis := range order {
		stored[i] = shape[axis]
	}
	raw := make([]byte, 8*len(words))
	for linear, word := range words {
		coord := unravel(int64(linear), shape)
		at := int64(0)
		for i, axis := range order {
			at = at*stored[i] + coord[axis]
		}
		if ix.Big {
			binary.BigEndian.PutUint64(raw[8*at:], word)
		} else {
			binary.LittleEndian.PutUint64(raw[8*at:], word)
		}
	}
	if ix.Checksum {
		raw = binary.LittleEndian.AppendUint32(raw, crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)))
	}
	return raw
}

// unravel is the coordinate of a linear index in C order.
func unravel(linear int64, shape []int64) []int64 {
	coord := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		coord[i] = linear % shape[i]
		linear /= shape[i]
	}
	return coord
}

// readElement finds one element in uncompressed stored objects, level by level,
// as a reader would that knows nothing but this package.
func readElement(a *Array, objects map[string][]byte, x []int64) ([]byte, error) {
	coordAt := func(level int) []int64 {
		coord := make([]int64, len(x))
		for i := range x {
			coord[i] = x[i] / a.Levels[level].Chunk[i]
		}
		return coord
	}
	object, ok := objects[a.Key(coordAt(0))]
	if !ok {
		return a.Fill, nil
	}
	for i := range a.Levels {
		l := &a.Levels[i]
		for range l.Bytes { // crc32c in all of the samples
			object = object[:len(object)-4]
		}
		if l.Index == nil {
			break
		}
		at := l.Index.Offset(int64(len(object)))
		entries, err := l.Index.Parse(nil, object[at:at+l.Index.Size()], int64(len(object)))
		if err != nil {
			return nil, err
		}
		e := entries[a.IndexOf(i, coordAt(i+1))]
		if e.Missing() {
			return a.Fill, nil
		}
		object = object[e.Offset : e.Offset+e.Length]
	}
	linear := int64(0)
	for _, axis := range a.Leaf().Order {
		n := a.Leaf().Chunk[axis]
		linear = linear*n + x[axis]%n
	}
	size := int64(a.DType.Size())
	return object[linear*size : (linear+1)*size], nil
}
