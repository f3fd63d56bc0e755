package pipeline

import (
	"math"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/zarr"
)

// recipe is the codec chain of an array, compiled once when it is opened. Every
// backend executes the same recipe: decode the stages, then read elements of
// elem, byte-swapped if big, at the strides of the array's axes.
type recipe struct {
	array   string // URI, for messages
	stages  []zarr.Codec
	chain   *codec.Chain
	raw     bool    // no stage: the stored bytes are the elements
	packing packing // for a device that decodes
	elem    nd.DType
	big     bool
	size    int64   // decoded bytes of a chunk
	chunk   []int64 // extents along the array's axes
	stride  []int64 // bytes between neighbours along the array's axes
	fill    []byte  // one element, little-endian
}

// compile makes the recipe of an array's leaf chunks. What cannot be decoded is
// nd.ErrUnsupported and names the codec or the number that is too large.
func compile(uri string, a *zarr.Array, verify bool) (*recipe, error) {
	leaf := a.Leaf()
	r := &recipe{array: uri, elem: a.DType.DType, big: leaf.Big, size: a.ChunkBytes(), chunk: leaf.Chunk, fill: a.Fill}
	for _, n := range leaf.Chunk {
		if n > math.MaxInt32 {
			return nil, nd.Errorf(nd.ErrUnsupported, "chunks of %v elements have an extent of more than 2^31", leaf.Chunk)
		}
	}
	if a.Format == 2 {
		r.big = a.DType.Big
	}
	if r.elem.Word() == 1 {
		r.big = false
	}
	if _, ok := nd.Product(a.GridShape(len(a.Levels) - 1)); !ok {
		return nil, nd.Errorf(nd.ErrUnsupported, "shape %v in chunks of %v has more than 2^63 chunks", a.Shape, leaf.Chunk)
	}
	for _, level := range a.Levels[:len(a.Levels)-1] {
		if n := level.Index.Size(); n > maxIndexBytes {
			return nil, nd.Errorf(nd.ErrUnsupported, "shards of %v chunks have an index of %d bytes, at most %d are read", level.Index.Counts, n, maxIndexBytes)
		}
	}
	stages, err := r.decodeStages(a, leaf)
	if err != nil {
		return nil, err
	}
	r.raw = len(stages) == 0
	if len(stages) == len(r.stages) { // else there is a byte swap between them
		r.packing = pack(r.stages, verify)
	}
	if !r.raw && r.size > math.MaxInt32 {
		return nil, nd.Errorf(nd.ErrUnsupported, "chunks of %v elements of %s decode to more than 2 GiB", leaf.Chunk, r.elem)
	}
	if r.chain, err = codec.NewChain(stages, int(r.size)); err != nil {
		return nil, err
	}
	if !verify {
		r.chain = r.chain.WithoutChecksums()
	}
	r.stride = strides(leaf.Chunk, leaf.Order, int64(r.elem.Size()))
	return r, nil
}

// decodeStages lists the codecs in the order of decoding. In v3 the bytes codec
// stands between the filters and the compressors, so a swap of big-endian data
// comes before filters; in v2 filters name their own byte order.
func (r *recipe) decodeStages(a *zarr.Array, leaf *zarr.Level) ([]codec.Codec, error) {
	var stages []codec.Codec
	add := func(list []zarr.Codec) error {
		for _, l := range slices.Backward(list) {
			c, err := codec.New(l.Name, l.Config)
			if err != nil {
				return err
			}
			r.stages = append(r.stages, l)
			stages = append(stages, c)
		}
		return nil
	}
	if err := add(leaf.Bytes); err != nil {
		return nil, err
	}
	if a.Format == 3 && r.big && len(leaf.Filters) > 0 {
		stages = append(stages, codec.Swap(r.elem.Word()))
		r.big = false
	}
	return stages, add(leaf.Filters)
}

// strides are the bytes between neighbours along each axis of the array, in a
// chunk whose stored axis i is array axis order[i].
func strides(chunk []int64, order []int, size int64) []int64 {
	s := make([]int64, len(chunk))
	for i := range slices.Backward(chunk) {
		a := i
		if order != nil {
			a = order[i]
		}
		s[a] = size
		size *= chunk[a]
	}
	return s
}

// conversion turns the elements of one recipe into those of one field.
type conversion struct {
	elem, out nd.DType
	big       bool
	affine    *codec.Affine
	from, to  int // bytes an element
	plane     codec.ConvertPlane
	// fill is the array's fill value as an element of the field: it is data like
	// any other, so scaled alike.
	fill []byte
}

func newConversion(r *recipe, to nd.DType, affine *codec.Affine) (*conversion, error) {
	plane, err := codec.PlaneConverter(r.elem, to, r.big, affine)
	if err != nil {
		return nil, err
	}
	native, err := codec.Converter(r.elem, to, false, affine)
	if err != nil {
		return nil, err
	}
	c := &conversion{elem: r.elem, out: to, big: r.big, affine: affine, from: r.elem.Size(), to: to.Size(), plane: plane, fill: make([]byte, to.Size())}
	native(c.fill, r.fill, 1)
	return c, nil
}
