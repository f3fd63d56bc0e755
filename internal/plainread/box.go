package plainread

import (
	"context"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// Read gives the elements of a box that lies inside the array as type to, in C
// order, little-endian.
func (r *Reader) Read(ctx context.Context, box nd.Box, to nd.DType) ([]byte, error) {
	if !box.Within(r.array.Shape) {
		return nil, nd.Errorf(nd.ErrShape, "box %v outside shape %v", box, r.array.Shape)
	}
	n, _ := box.Elements()
	out := make([]byte, n*int64(to.Size()))
	for coord := range r.array.Chunks(box) {
		data, err := r.chunk(ctx, coord)
		if err != nil {
			return nil, err
		}
		r.place(out, box, to, coord, data)
	}
	return out, nil
}

// place writes the elements that the box shares with a chunk.
func (r *Reader) place(out []byte, box nd.Box, to nd.DType, coord []int64, data []byte) {
	a, leaf := r.array, r.array.Leaf()
	shared := make(nd.Box, len(box))
	for i, s := range box {
		from := coord[i] * leaf.Chunk[i]
		shared[i] = s.Intersect(nd.Span{Start: from, Stop: from + leaf.Chunk[i]})
	}
	big := r.big
	if data == nil {
		big = false // the fill value is little-endian
	}
	turn := r.converter(a.DType.DType, to, big)
	size := int64(a.DType.Size())
	each(shared, func(at []int64) {
		src := a.Fill
		if data != nil {
			src = data[r.stored(at)*size:]
		}
		linear := int64(0)
		for i, s := range box {
			linear = linear*s.Len() + at[i] - s.Start
		}
		turn(out[linear*int64(to.Size()):], src)
	})
}

// stored is the position of an element within its chunk: C order of the stored
// axes.
func (r *Reader) stored(at []int64) int64 {
	leaf, linear := r.array.Leaf(), int64(0)
	for i := range leaf.Chunk {
		axis := i
		if leaf.Order != nil {
			axis = leaf.Order[i]
		}
		linear = linear*leaf.Chunk[axis] + at[axis]%leaf.Chunk[axis]
	}
	return linear
}

// each visits all coordinates of a box in C order.
func each(box nd.Box, visit func(at []int64)) {
	at := make([]int64, len(box))
	for i, s := range box {
		if s.Len() == 0 {
			return
		}
		at[i] = s.Start
	}
	for {
		visit(at)
		axis := len(at) - 1
		for ; axis >= 0; axis-- {
			if at[axis]++; at[axis] < box[axis].Stop {
				break
			}
			at[axis] = box[axis].Start
		}
		if axis < 0 {
			return
		}
	}
}

// convert turns one element.
type convert func(dst, src []byte)

// converter is the slow twin of the engine's conversions. A type of one or two
// bytes has few values, whose conversions are kept in a table.
func (r *Reader) converter(from, to nd.DType, big bool) convert {
	slow := func(dst, src []byte) { codec.ConvertRef(dst, to, src, from, big, nil) }
	if from == to && from != nd.Bool {
		return copier(from, big)
	}
	if from.Size() > 2 {
		return slow
	}
	key := [2]nd.DType{from, to}
	if big {
		key[0] |= 0x80 // both byte orders of a type may be wanted
	}
	if r.one[key] == nil {
		r.one[key] = tabulated(from.Size(), to.Size(), slow)
	}
	return r.one[key]
}

func copier(d nd.DType, big bool) convert {
	size, word := d.Size(), d.Word()
	return func(dst, src []byte) {
		copy(dst[:size], src)
		if big {
			for at := 0; at < size; at += word {
				slices.Reverse(dst[at : at+word])
			}
		}
	}
}

func tabulated(from, to int, turn convert) convert {
	count := 1 << (8 * from)
	table := make([]byte, count*to)
	for v := range count {
		turn(table[v*to:], []byte{byte(v), byte(v >> 8)}[:from])
	}
	if from == 1 {
		return func(dst, src []byte) { copy(dst[:to], table[int(src[0])*to:]) }
	}
	return func(dst, src []byte) { copy(dst[:to], table[(int(src[0])|int(src[1])<<8)*to:]) }
}
