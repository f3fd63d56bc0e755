package pipeline

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/zarr"
)

// openArrays reads the metadata of every array and compiles its recipe. Errors
// name the array.
func (p *Pipeline) openArrays(ctx context.Context) error {
	for i, ref := range p.cfg.Arrays {
		a, err := p.bind(ctx, int32(i), ref)
		if a != nil {
			p.arrays = append(p.arrays, a)
		}
		if err != nil {
			return nd.At(err, nd.Place{Array: ref.URI})
		}
	}
	return nil
}

func (p *Pipeline) bind(ctx context.Context, index int32, ref ArrayRef) (*boundArray, error) {
	o, err := openArray(ctx, ref)
	if err != nil {
		return nil, err
	}
	if o.prefix != "" {
		o.prefix += "/"
	}
	a := &boundArray{index: index, ref: ref, store: o.store, prefix: o.prefix, meta: o.array, owned: ref.Store == nil, blobLimit: indexBytes, counts: &p.counts}
	for _, text := range a.meta.Notes {
		p.tell(func(l *Listener) {
			if l.Noted != nil {
				l.Noted(Note{ref.URI, text})
			}
		})
	}
	r, err := compile(ref.URI, a.meta, !p.cfg.NoVerify)
	if err != nil {
		return a, err
	}
	a.layout = newArrayLayout(ref.URI, a.meta, r)
	a.wraps, err = wraps(a.meta)
	return a, err
}

// wraps compiles the codecs around whole shards, a chain a level.
func wraps(a *zarr.Array) ([]*codec.Chain, error) {
	chains := make([]*codec.Chain, len(a.Levels)-1)
	for i := range chains {
		list := a.Levels[i].Bytes
		var stages []codec.Codec
		for k := len(list) - 1; k >= 0; k-- {
			c, err := codec.New(list[k].Name, list[k].Config)
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
