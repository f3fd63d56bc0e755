package pipeline

import (
	"errors"
	"runtime"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// limits is the budget of a pipeline, worked out once at Open. Nothing that it
// bounds grows afterwards.
type limits struct {
	slot       int64 // bytes of one batch
	chunk      int64 // decoded bytes of the largest chunk
	scratch    int64 // of all workers
	slabs      int64 // ring of encoded bytes
	waveSlab   int64 // encoded bytes of one wave
	decoded    int64 // decoded cache
	compressed int64 // cache of stored bytes on a device
	index      int64 // shard indexes
}

const (
	mib = int64(1) << 20

	// indexBytes holds the indexes of thousands of shards of 256 chunks.
	indexBytes = 16 * mib
	// maxIndexBytes is the largest index of one shard, of four million chunks. More
	// is a mistake or an attack: a file with a hole is as large as one likes.
	maxIndexBytes = 64 * mib
	// laterChunk is the least room for a decoded chunk, so that most arrays can be
	// added after Open: 64^3 elements of 8 bytes.
	laterChunk = 2 * mib
)

// CheckStored refuses a chunk whose stored bytes are far more than it decodes to, before any of them is
// read: with [nd.ErrBudget], wherever batches go. No encoder writes such a thing; but empty blocks are well formed, however
// many, and each is a step for a decoder. The most is the ring of a host where HostBytes does not shrink it.
func CheckStored(stored, decoded int64) error {
	if most := ringBytes(decoded); stored > most {
		return nd.Errorf(nd.ErrBudget, "%d stored bytes of a chunk that decodes to %d, at most %d are read: is there something else behind them?", stored, decoded, most)
	}
	return nil
}

// ringBytes is the size of the ring where the largest chunk decodes to so many bytes.
func ringBytes(chunk int64) int64 { return max(slabBytes, 2*chunk+maxRead) }

// room is the number of samples that are in the inbox or in the window at most. The
// part beyond the look-ahead is two batches, since samples come a batch at a time
// and the next one comes when its consumer is back.
func (c *Config) room() int { return c.Lookahead + 2*c.BatchSize }

// Capacity is the most samples that are under way at a time: pushed, and in no batch that
// was released.
func (p *Pipeline) Capacity() int { return p.cfg.room() + p.cfg.Slots*p.cfg.BatchSize }

func (c *Config) setDefaults() {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	if c.Device.gpu() {
		set(&c.Readers, min(max(4, runtime.GOMAXPROCS(0)), 16))
	}
	set(&c.Readers, 4)
	set(&c.Workers, runtime.GOMAXPROCS(0))
	set(&c.Lookahead, 4*c.BatchSize)
	set(&c.Slots, 3)
	if c.Device == "" {
		c.Device = "cpu"
	}
}

// layOut places the fields in a slot and pairs arrays with fields.
func (p *Pipeline) layOut() error {
	var errs []error
	for i := range p.cfg.Fields {
		f, err := p.layOutField(&p.cfg.Fields[i], p.limits.slot)
		if err != nil {
			errs = append(errs, nd.Errorf(kindOf(err), "field %q: %w", p.cfg.Fields[i].Name, err))
			continue
		}
		p.fields = append(p.fields, f)
		size, ok := nd.Product([]int64{int64(f.sampleBytes), int64(p.cfg.BatchSize)})
		if !ok || size > maxSlotBytes-p.limits.slot {
			return nd.Errorf(nd.ErrBudget, "field %q: a batch of %d samples of %d bytes is larger than %d bytes: lower BatchSize or use smaller crops",
				f.name, p.cfg.BatchSize, f.sampleBytes, int64(maxSlotBytes))
		}
		p.limits.slot += (size + arenaGrain - 1) &^ (arenaGrain - 1)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, a := range *p.arrays.Load() {
		errs = append(errs, p.pair(a, func(f *Field) (feeds, named bool) {
			named = slices.Contains(f.Arrays, int(a.index))
			return named || f.Arrays == nil, named
		}))
	}
	return errors.Join(errs...)
}

func (p *Pipeline) layOutField(c *Field, offset int64) (*fieldLayout, error) {
	rank := len(c.Shape)
	f := &fieldLayout{name: c.Name, dtype: c.DType, pad: c.Pad, crop: c.Shape, offset: int(offset)}
	if f.dtype == nd.Invalid {
		var err error
		if f.dtype, err = p.commonType(c); err != nil {
			return nil, err
		}
	}
	f.order = c.Axes
	if f.order == nil {
		for a := range rank {
			f.order = append(f.order, a)
		}
	}
	f.shape = make([]int, rank)
	f.strides = make([]int64, rank)
	size := int64(f.dtype.Size())
	for i := rank - 1; i >= 0; i-- {
		a := f.order[i]
		f.shape[i], f.strides[a] = c.Shape[a], size
		size *= int64(c.Shape[a])
		if size > maxSampleBytes {
			return nil, nd.Errorf(nd.ErrBudget, "a sample of shape %v of %s has more than %d bytes: use smaller crops", c.Shape, f.dtype, int64(maxSampleBytes))
		}
	}
	f.sampleBytes = int(size)
	f.padElem = make([]byte, f.dtype.Size())
	return f, padElem(f.padElem, f.dtype, c.PadValue)
}

// These keep sums of sizes far from overflow: no machine of today holds a larger
// sample or batch.
const (
	maxSampleBytes = 1 << 42
	maxSlotBytes   = 1 << 48
)

// padElem writes the padding value, given in output units, as one element.
func padElem(elem []byte, to nd.DType, value float64) error {
	from := nd.F64
	switch to {
	case nd.Bool:
		if value != 0 {
			elem[0] = 1
		}
		return nil
	case nd.C64:
		elem, to = elem[:4], nd.F32
	case nd.C128:
		elem, to = elem[:8], nd.F64
	}
	row, err := codec.Converter(from, to, false, nil)
	if err != nil {
		return err
	}
	row(elem, leFloat64(value), 1)
	return nil
}

// commonType is the type that all arrays of a field have. A scale makes fractions,
// which an integer type would cut off: that must be asked for by name.
func (p *Pipeline) commonType(c *Field) (nd.DType, error) {
	found := nd.Invalid
	for _, a := range p.arraysOf(c) {
		d := a.meta.DType.DType
		if found != nd.Invalid && found != d {
			return 0, nd.Errorf(nd.ErrShape, "arrays of types %s and %s feed it: give it a DType", found, d)
		}
		found = d
	}
	if (found.Signed() || found.Unsigned()) && len(c.Scale)+len(c.Offset) > 0 {
		return 0, nd.Errorf(nd.ErrConfig, "scale/offset would be cut to %s: give DType=\"f32\", or DType=\"%s\" if that is meant", found.Name(), found)
	}
	return found, nil
}

func (p *Pipeline) arraysOf(c *Field) []*boundArray {
	if c.Arrays == nil {
		return *p.arrays.Load()
	}
	var list []*boundArray
	for _, i := range c.Arrays {
		list = append(list, p.array(i))
	}
	return list
}

// pair works out how the array's elements become those of each field that it
// feeds. What cannot be is an error now where the array was named for the field,
// else when a sample asks for it.
func (p *Pipeline) pair(a *boundArray, feeds func(*Field) (feeds, named bool)) error {
	a.pairs = make([]pairing, len(p.fields))
	var errs []error
	for i, f := range p.fields {
		c := &p.cfg.Fields[i]
		yes, named := feeds(c)
		if !yes {
			a.pairs[i].err = nd.Errorf(nd.ErrShape, "array %d is not among the arrays of field %q", a.index, c.Name)
			continue
		}
		conv, err := p.convert(a, c, f)
		a.pairs[i] = pairing{conv, err}
		if err != nil && named {
			errs = append(errs, nd.At(nd.Errorf(kindOf(err), "field %q: %w", c.Name, err), nd.Place{Array: a.ref.URI}))
		}
	}
	return errors.Join(errs...)
}

func (p *Pipeline) convert(a *boundArray, c *Field, f *fieldLayout) (*conversion, error) {
	if from := a.meta.DType.DType; c.DType == nd.Invalid && from != f.dtype {
		return nil, nd.Errorf(nd.ErrShape, "the field keeps its arrays' type %s, this one is %s: give the field a DType", f.dtype, from)
	}
	return newConversion(a.layout.recipe, f.dtype, c.affine(int(a.index)))
}

// affine is the scale and offset of an array in this field, nil for none.
func (c *Field) affine(array int) *codec.Affine {
	if len(c.Scale) == 0 && len(c.Offset) == 0 {
		return nil
	}
	pick := func(list []float64, none float64) float64 {
		switch len(list) {
		case 0:
			return none
		case 1:
			return list[0]
		}
		return list[array]
	}
	return &codec.Affine{Scale: pick(c.Scale, 1), Offset: pick(c.Offset, 0)}
}

// largestChunk is the most decoded bytes of a chunk that the pipeline has room for.
// Raw chunks that are read in parts have no part in it.
func (p *Pipeline) largestChunk() int64 {
	n := laterChunk
	for _, a := range *p.arrays.Load() {
		if r := a.layout.recipe; !r.raw || r.size <= a.layout.whole {
			n = max(n, r.size)
		}
	}
	return n
}
