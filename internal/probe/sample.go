package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

const (
	// maxChunk is the largest decoded chunk.
	maxChunk = 1 << 30
	// maxStored bounds the stored bytes that are held; one chunk is always held.
	maxStored = 128 << 20
	// lookAhead times the chunks asked for is how many places are looked at, where most
	// of them hold nothing.
	lookAhead = 8
	readers   = 4 // as many as the engine's default
)

// sample is the chunks that were drawn.
type sample struct {
	grid    int64 // chunks that the array has room for
	looked  int
	missing int
	failed  int
	first   error // of the failed ones

	extents []*extent // of all that are stored, and not known to be broken
	chunks  [][]byte  // stored bytes; as many of the extents as the budget allows
	places  []*extent // of chunks, each
	total   int64     // bytes of chunks

	firstRead float64 // GB/s
}

// draw looks at chunks in a seeded order until so many are stored.
func (p *probe) draw(ctx context.Context) (*sample, error) {
	leaf := len(p.array.Levels) - 1
	grid := p.array.GridShape(leaf)
	s := &sample{}
	var ok bool
	if s.grid, ok = nd.Product(grid); !ok {
		return nil, nd.Errorf(nd.ErrUnsupported, "shape %v in chunks of %v has more than 2^63 chunks", p.array.Shape, p.array.ChunkShape())
	}
	order := sampler.New(s.grid, sampler.EpochKey("headrace/probe", s.grid, p.options.Seed, 0))
	l, err := newLocator(p.store, p.path, p.array)
	if err != nil {
		return nil, err
	}
	defer l.scratch.Close()
	limit := min(s.grid, int64(lookAhead*p.options.Samples))
	for want := p.options.Samples; int64(s.looked) < limit && want > 0; want = p.options.Samples - len(s.extents) {
		// Some more than are missing, so that few rounds are needed.
		n := min(int64(2*want), limit-int64(s.looked))
		if s.looked == 0 {
			n = min(int64(want), limit)
		}
		if err := p.look(ctx, s, l, p.coords(order, int64(s.looked), n, grid)); err != nil {
			return nil, err
		}
		p.say("look at chunks", int64(s.looked), limit)
	}
	return s, p.fetch(ctx, s)
}

// coords are the chunks at n positions of the order, sorted by the object that they
// lie in.
func (p *probe) coords(order *sampler.Order, first, n int64, grid []int64) []place {
	list := make([]place, n)
	for i := range list {
		coord := make([]int64, len(grid))
		rest := order.At(first + int64(i))
		for axis, extent := range slices.Backward(grid) {
			coord[axis], rest = rest%extent, rest/extent
		}
		list[i] = place{first + int64(i), coord, p.array.Parent(nil, 0, coord)}
	}
	slices.SortFunc(list, func(a, b place) int {
		return cmp.Or(slices.Compare(a.object, b.object), slices.Compare(a.coord, b.coord))
	})
	return list
}

// place is a chunk that was drawn.
type place struct {
	turn          int64 // its position in the order
	coord, object []int64
}

// look finds the chunks. Those that cannot be found for broken bytes are counted.
func (p *probe) look(ctx context.Context, s *sample, l *locator, list []place) error {
	for _, at := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.looked++
		e, err := l.find(ctx, at.coord)
		if err == nil && e != nil {
			err = nd.At(pipeline.CheckStored(e.size, int64(p.recipe.size)), nd.Place{File: e.key})
		}
		switch {
		case err != nil:
			if err = s.fail(p.at(err, at.coord)); err != nil {
				return err
			}
		case e == nil:
			s.missing++
		default:
			e.turn = at.turn
			s.keep(e)
		}
	}
	return nil
}

// keep adds an extent. Bytes of a shard that was decoded as a whole are copied, since
// the shard is dropped; beyond the budget the chunk is known by its size alone.
func (s *sample) keep(e *extent) {
	if e.bytes != nil {
		if s.total += e.size; s.total <= maxStored || len(s.extents) == 0 {
			e.bytes = bytes.Clone(e.bytes)
		} else {
			e.bytes, e.dropped = nil, true
		}
	}
	s.extents = append(s.extents, e)
}

// fail counts a chunk that cannot be decoded, or that nobody reads for its length; other errors end the work.
func (s *sample) fail(err error) error {
	if !errors.Is(err, nd.ErrCorrupt) && !errors.Is(err, nd.ErrUnsupported) && !errors.Is(err, nd.ErrBudget) {
		return err
	}
	if s.failed++; s.first == nil {
		s.first = err
	}
	return nil
}

// fetch reads the stored chunks up to maxStored bytes, a few at a time as the engine
// does, and times it.
func (p *probe) fetch(ctx context.Context, s *sample) error {
	// In the order of the draw, so that the first ones are from everywhere.
	slices.SortFunc(s.extents, func(a, b *extent) int { return cmp.Compare(a.turn, b.turn) })
	s.total = 0
	for _, e := range s.extents {
		if e.dropped || s.total > 0 && s.total+e.size > maxStored || len(s.places) == p.options.Samples {
			continue
		}
		s.places = append(s.places, e)
		s.total += e.size
	}
	s.chunks = make([][]byte, len(s.places))
	for i, e := range s.places {
		s.chunks[i] = make([]byte, e.size)
	}
	began := time.Now()
	var done atomic.Int64
	err := p.each(ctx, len(s.places), readers, func(i int) error {
		err := s.places[i].read(ctx, p.store, s.chunks[i])
		p.say("read chunks", done.Add(1), int64(len(s.places)))
		return p.atExtent(err, s.places[i])
	})
	if took := time.Since(began).Seconds(); took > 0 {
		s.firstRead = float64(s.total) / took / 1e9
	}
	return err
}

// each calls do for every number below n on a few goroutines, until one fails.
func (p *probe) each(ctx context.Context, n, goroutines int, do func(i int) error) error {
	var wait sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, min(goroutines, n))
	var failed atomic.Bool
	for g := range errs {
		wait.Go(func() {
			for !failed.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[g] = do(i); errs[g] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return cmp.Or(ctx.Err(), errors.Join(errs...))
}

// broken is the error of a sample of which no chunk can be decoded; nil if one can, or none is stored.
func (s *sample) broken() error {
	first, ok := errors.AsType[*nd.Error](s.first)
	if len(s.chunks) > 0 || !ok {
		return nil
	}
	return nd.Errorf(first.Kind, "none of the %d chunks that were looked at and are stored can be decoded; the first: %w", s.failed, s.first)
}

// sizes are the stored bytes of all extents, ascending.
func (s *sample) sizes() []int64 {
	list := make([]int64, len(s.extents))
	for i, e := range s.extents {
		list[i] = e.size
	}
	slices.Sort(list)
	return list
}
