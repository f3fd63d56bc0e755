package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// openArrays reads the metadata of every array and compiles its recipe. Errors
// name the array.
func (p *Pipeline) openArrays(ctx context.Context) error {
	list := make([]*boundArray, 0, len(p.cfg.Arrays))
	defer func() { p.arrays.Store(&list) }()
	for _, ref := range p.cfg.Arrays {
		a, err := p.bind(ctx, int32(len(list)), ref)
		if a != nil {
			list = append(list, a)
		}
		if err != nil {
			return nd.At(err, nd.Place{Array: ref.URI})
		}
	}
	return nil
}

// array is array i. The list only grows, and a sample names an array only after
// it was checked against the list.
func (p *Pipeline) array(i int) *boundArray { return (*p.arrays.Load())[i] }

// AddArray opens one more array and returns its index, for samples pushed from
// then on. It feeds the fields named, or, if none is, those whose Arrays are nil.
// The memory was divided at Open: an array whose chunks do not fit it is
// nd.ErrBudget, and must be named in Config.Arrays. Where a GPU's decoder of its chunks
// needs memory that no array of Open does, the host decodes them. Close ends a call that
// waits for the store.
func (p *Pipeline) AddArray(ctx context.Context, ref ArrayRef, fields ...string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	p.adding.Lock()
	defer p.adding.Unlock()
	if err := p.inbox.ending(); err != nil {
		return 0, err
	}
	list := *p.arrays.Load()
	a, err := p.bind(ctx, int32(len(list)), ref)
	if err == nil {
		err = p.admit(a, fields)
	}
	if err != nil {
		if a != nil && a.owned {
			err = errors.Join(err, a.store.Close())
		}
		return 0, nd.At(err, nd.Place{Array: ref.URI})
	}
	grown := append(slices.Clip(list), a)
	p.arrays.Store(&grown)
	return len(list), nil
}

// admit checks that a later array fits what was laid out at Open.
func (p *Pipeline) admit(a *boundArray, fields []string) error {
	if r := a.layout.recipe; !r.raw && r.size > p.limits.chunk {
		return nd.Errorf(nd.ErrBudget, "chunks of %d bytes; the arrays named at Open left room for %d: name this array in Config.Arrays", r.size, p.limits.chunk)
	}
	for i := range p.cfg.Fields {
		if f := &p.cfg.Fields[i]; len(f.Scale) > 1 || len(f.Offset) > 1 {
			return nd.Errorf(nd.ErrConfig, "field %q has a scale or offset for each array of Config.Arrays, none for a later one", f.Name)
		}
	}
	return p.pair(a, func(f *Field) (feeds, named bool) {
		if len(fields) > 0 {
			named = slices.Contains(fields, f.Name)
			return named, named
		}
		return f.Arrays == nil, false
	})
}

func (p *Pipeline) bind(ctx context.Context, index int32, ref ArrayRef) (*boundArray, error) {
	access, _ := p.cfg.access()
	o, err := openArray(ctx, ref, store.Options{Descriptors: p.files, Access: access})
	if err != nil {
		return nil, err
	}
	if o.prefix != "" {
		o.prefix += "/"
	}
	a := &boundArray{index: index, ref: ref, store: o.store, prefix: o.prefix, meta: o.array, owned: ref.Store == nil, limits: &p.limits, counts: &p.counts}
	for _, text := range a.meta.Notes {
		p.tell(func(l *Listener) {
			if l.Noted != nil {
				l.Noted(Note{ref.URI, text})
			}
		})
	}
	a.document = a.prefix + map[int]string{2: ".zarray", 3: "zarr.json"}[a.meta.Format]
	if _, err := a.store.Size(ctx, a.document); err != nil {
		a.document = "" // consolidated metadata stand for it
	}
	r, err := compile(ref.URI, a.meta, !p.cfg.NoVerify)
	if err != nil {
		return a, err
	}
	a.layout = newArrayLayout(ref.URI, a.meta, r)
	if p.cfg.Device.gpu() {
		a.layout.whole = deviceRawWhole
		if n := p.limits.chunk; n > 0 { // the pipeline is open: there is room for so much
			a.layout.whole = min(a.layout.whole, n)
		}
	}
	a.wraps, err = wraps(a.meta)
	return a, err
}

// wraps compiles the codecs around whole shards, a chain a level.
func wraps(a *zarr.Array) ([]*codec.Chain, error) {
	chains := make([]*codec.Chain, len(a.Levels)-1)
	for i := range chains {
		list := a.Levels[i].Bytes
		var stages []codec.Codec
		for _, l := range slices.Backward(list) {
			c, err := codec.New(l.Name, l.Config)
			if err != nil {
				return nil, err
			}
			stages = append(stages, c)
		}
		var err error
		if chains[i], err = codec.NewChain(stages, -1); err != nil {
			return nil, err
		}
	}
	return chains, nil
}

func leFloat64(x float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
}
