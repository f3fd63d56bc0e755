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
	slot     int64 // bytes of one batch
	chunk    int64 // decoded bytes of the largest chunk
	scratch  int64 // of all workers
	slabs    int64 // ring of encoded bytes
	waveSlab int64 // encoded bytes of one wave
	decoded  int64 // decoded cache
	index    int64 // shard indexes
}

const (
	mib = int64(1) << 20

	// hostWave is the decoded size of a wave on the host: a few milliseconds of
	// work for two cores, so that the first batch is early and a wave's bookkeeping
	// is small beside it.
	hostWave = 8 * mib
	// hostWaves are in flight: one being decoded, one read, two in line for when a
	// read takes longer than a decode.
	hostWaves = 4
	// slabBytes is the ring's size where chunks are small: the waves in flight and
	// room for chunks that do not compress.
	slabBytes = 64 * mib
	// decodedBytes is the decoded cache where HostBytes is not given.
	decodedBytes = 256 * mib
	// indexBytes holds the indexes of thousands of shards of 256 chunks.
	indexBytes = 16 * mib
	// maxIndexBytes is the largest index of one shard, of four million chunks. More
	// is a mistake or an attack: a file with a hole is as large as one likes.
	maxIndexBytes = 64 * mib
	// laterChunk is the least room for a decoded chunk, so that most arrays can be
	// added after Open: 64^3 elements of 8 bytes.
	laterChunk = 2 * mib
	// codecScratch is what a decoder keeps for itself, a zstd window aside.
	codecScratch = 1 * mib
)

// room is the number of samples that are in the inbox or in the window at most. The
// part beyond the look-ahead is two batches, since samples come a batch at a time
// and the next one comes when its consumer is back.
func (c *Config) room() int { return c.Lookahead + 2*c.BatchSize }

func (c *Config) setDefaults() {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&c.Readers, 4)
	set(&c.Workers, runtime.GOMAXPROCS(0))
	set(&c.Lookahead, 4*c.BatchSize)
	set(&c.Slots, 3)
	if c.Device == "" {
		c.Device = "cpu"
	}
}

// layOut places the fields in a slot, pairs arrays with fields and divides the
// memory.
func (p *Pipeline) layOut() error {
	if err := p.layOutFields(); err != nil {
		return err
	}
	return p.divideMemory()
}

func (p *Pipeline) layOutFields() error {
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

// divideMemory shares HostBytes out: first what the work cannot do without, then
// the decoded cache with what is left.
func (p *Pipeline) divideMemory() error {
	c, l := &p.cfg, &p.limits
	l.chunk = laterChunk
	for _, a := range *p.arrays.Load() {
		if r := a.layout.recipe; !r.raw {
			l.chunk = max(l.chunk, r.size)
		}
	}
	// A codec chain of several stages needs a second buffer of a chunk's size.
	l.scratch = int64(c.Workers) * (2*l.chunk + codecScratch)
	l.slabs = max(slabBytes, 2*l.chunk+maxRead)
	l.index = indexBytes
	p.capacity = capacity{waveBytes: hostWave, waves: hostWaves}
	slots := int64(c.Slots) * l.slot
	if c.HostBytes == 0 {
		l.decoded = c.DecodedBytes
		if l.decoded == 0 {
			l.decoded = decodedBytes
		}
	} else if err := p.fitMemory(slots); err != nil {
		return err
	}
	if c.Reuse == ReuseNone {
		l.decoded = 0
	}
	l.waveSlab = l.slabs / (hostWaves + 1)
	p.counts.hostBytes.Store(slots + l.scratch + l.slabs + l.index + l.decoded)
	return nil
}

// fitMemory shrinks the ring, and gives the cache what HostBytes leaves.
func (p *Pipeline) fitMemory(slots int64) error {
	c, l := &p.cfg, &p.limits
	least := max(2*l.chunk, maxRead)
	l.slabs = max(least, min(l.slabs, c.HostBytes/8))
	l.index = min(l.index, max(mib, c.HostBytes/32))
	need := slots + l.scratch + l.slabs + l.index
	if need+c.DecodedBytes > c.HostBytes {
		return nd.Errorf(nd.ErrBudget, "HostBytes %d is too little: %d slots of %d bytes, scratch for %d workers %d, ring %d, indexes %d and DecodedBytes %d need %d; raise it, or lower Slots, BatchSize or Workers",
			c.HostBytes, c.Slots, l.slot, c.Workers, l.scratch, l.slabs, l.index, c.DecodedBytes, need+c.DecodedBytes)
	}
	l.decoded = c.DecodedBytes
	if l.decoded == 0 {
		l.decoded = c.HostBytes - need
	}
	return nil
}

// takeMemory takes everything at once; freeMemory gives it back.
func (p *Pipeline) takeMemory() (err error) {
	if p.slots, err = newSlots(p.cfg.BatchMemory, p.cfg.Slots, p.limits.slot); err != nil {
		return err
	}
	if p.slabs, err = allocate(p.limits.slabs); err != nil {
		return err
	}
	p.decoded, err = allocate(p.limits.decoded)
	return err
}

func (p *Pipeline) freeMemory() error {
	var errs []error
	if p.slots != nil {
		errs = append(errs, p.slots.close())
	}
	errs = append(errs, free(p.slabs), free(p.decoded))
	p.slabs, p.decoded = nil, nil
	for _, a := range *p.arrays.Load() {
		if a.owned {
			errs = append(errs, a.store.Close())
		}
	}
	errs = append(errs, p.files.Close())
	return errors.Join(errs...)
}
