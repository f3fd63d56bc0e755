package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// Options say what to probe. The zero value of a field is its default.
type Options struct {
	URI   string
	Level string // of an OME-Zarr image

	// Device is "" for cuda:0 where there is a GPU, a GPU's name, or cpu, for batches in
	// the host's memory; then no GPU is looked for.
	Device string
	Driver string // path of the driver's library, for tests

	Samples int     // chunks to read; 64
	Crop    []int64 // nil: see cropShape
	Codecs  []string
	// OnlyStored tries no other codec.
	OnlyStored bool
	Seed       uint64

	// Time is how long a rate is measured; 0 is 400 ms, long against a scheduler's turn.
	Time time.Duration
	// GPUTime is how long calls on a GPU may take, all together; 0 is DefaultGPUTime. A call that has begun
	// is not cut off; but none begins that would take longer, as far as shorter ones tell.
	GPUTime time.Duration
	calls   []int // chunks of a call that is measured or predicted; 64, 512 and 4096

	// Report is told how far the phases are, one call at a time; total is 0 where it is
	// not known.
	Report func(phase string, done, total int64)
}

// DefaultGPUTime is the time of Options.GPUTime: a GPU takes a few seconds.
const DefaultGPUTime = 20 * time.Second

// MaxSamples bounds the chunks of a probe.
const MaxSamples = 1 << 16

func (o *Options) setDefaults() error {
	if o.Samples < 0 || o.Samples > MaxSamples {
		return nd.Errorf(nd.ErrConfig, "%d samples: 1 to %d", o.Samples, MaxSamples)
	}
	if o.Samples == 0 {
		o.Samples = 64
	}
	if o.Time <= 0 {
		o.Time = 400 * time.Millisecond
	}
	if o.GPUTime <= 0 {
		o.GPUTime = DefaultGPUTime
	}
	if o.calls == nil {
		o.calls = []int{64, 512, 4096}
	}
	for _, name := range o.Codecs {
		if _, err := parseCodec(name, 2); err != nil {
			return err
		}
	}
	return nil
}

// probe is one run.
type probe struct {
	options Options
	store   store.Store
	path    string
	array   *zarr.Array
	recipe  *recipe
	model   *Model
	gpu     *gpu // nil where none is measured
	notes   []string

	until time.Time // when the time of GPUTime is over
	rooms [][]byte  // that goroutines decode to, each of them another

	mu sync.Mutex // orders calls of options.Report
}

// Run probes an array.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	n, err := openNode(ctx, o.URI, o.Level)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	p := &probe{options: o, store: n.Store, path: n.Path, array: n.Array, rooms: newRooms()}
	if p.recipe, err = newRecipe(n.Array); err != nil {
		return nil, nd.At(err, nd.Place{Array: o.URI})
	}
	if p.model, err = DefaultModel(); err != nil {
		return nil, err
	}
	if err = p.openGPU(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.gpu.close()) }()
	r, err := p.run(ctx)
	return r, nd.At(err, nd.Place{Array: o.URI})
}

// openNode finds the array: a group stands for a level of its image.
func openNode(ctx context.Context, uri, level string) (*pipeline.Node, error) {
	n, err := pipeline.Inspect(ctx, uri)
	if err != nil {
		return nil, err
	}
	if n.Array == nil && n.Err == nil || level != "" {
		if len(n.Multiscales) == 0 {
			err = nd.Errorf(nd.ErrNotFound, "%s", noArray(n, level))
			return nil, errors.Join(nd.At(err, nd.Place{Array: uri}), n.Close())
		}
		l, err := zarr.PickLevel(n.Multiscales, level)
		if err != nil {
			return nil, errors.Join(nd.At(err, nd.Place{Array: uri}), n.Close())
		}
		if n, err = inner(ctx, n, l.Path); err != nil {
			return nil, nd.At(err, nd.Place{Array: uri})
		}
	}
	if n.Err != nil || n.Array == nil {
		err := n.Err
		if err == nil {
			err = nd.Errorf(nd.ErrNotFound, "level %q is a group, not an array", n.Path)
		}
		return nil, errors.Join(nd.At(err, nd.Place{Array: uri}), n.Close())
	}
	return n, nil
}

// inner is a node of the same store, which it takes over.
func inner(ctx context.Context, n *pipeline.Node, path string) (*pipeline.Node, error) {
	at, err := pipeline.InspectStore(ctx, n.Store, path)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return at, nil
}

// noArray says what to name instead of a group.
func noArray(n *pipeline.Node, level string) string {
	if n.Array != nil {
		return fmt.Sprintf("level %q: this is an array and has no levels", level)
	}
	const most = 8
	var names []string
	for _, c := range n.Children {
		if len(names) == most {
			names = append(names, "...")
			break
		}
		names = append(names, c.Path)
	}
	if len(names) == 0 {
		return "a group without arrays"
	}
	return "a group: name an array in it, of " + strings.Join(names, ", ")
}

// say reports progress.
func (p *probe) say(phase string, done, total int64) {
	if p.options.Report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.Report(phase, done, total)
}

func (p *probe) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// at names a chunk in an error; Run names the array.
func (p *probe) at(err error, coord []int64) error {
	return nd.At(err, nd.Place{Chunk: strings.Trim(strings.ReplaceAll(fmt.Sprint(coord), " ", "/"), "[]")})
}

// atExtent names a chunk, the file that it lies in and where.
func (p *probe) atExtent(err error, e *extent) error {
	return p.at(nd.At(err, nd.Place{File: e.key, Offset: e.offset, Length: e.size}), e.coord)
}

func (p *probe) run(ctx context.Context) (*Result, error) {
	a := p.array
	if err := checkSize(a); err != nil {
		return nil, err
	}
	if slices.Contains(a.Shape, 0) {
		return nil, nd.Errorf(nd.ErrShape, "shape %v holds no elements: there is nothing to probe", a.Shape)
	}
	crop, err := cropShape(a, p.options.Crop)
	if err != nil {
		return nil, err
	}
	r := &Result{
		URI: p.options.URI, ZarrFormat: a.Format, Shape: a.Shape, DType: a.DType.Name, Chunks: a.ChunkShape(),
		Codecs: describe(a), ChunkBytes: a.ChunkBytes(), Method: p.coding().method,
	}
	if len(a.Levels) > 1 {
		r.Shards = a.Levels[0].Chunk
	}
	s, err := p.draw(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.measure(ctx, r, s, crop); err != nil {
		return nil, err
	}
	r.Notes = append(append([]string{}, a.Notes...), p.notes...)
	return r, nil
}

// coding is what the chunks are to a GPU. Filters belong to the host.
func (p *probe) coding() coding {
	c := codingOf(p.recipe.bytes)
	if len(p.recipe.rest) > 0 {
		c.device = false
	}
	return c
}

// measure fills in all that follows from the sample.
func (p *probe) measure(ctx context.Context, r *Result, s *sample, crop []int64) error {
	t, structure, err := p.check(ctx, s)
	if err != nil {
		return err
	}
	if err := s.broken(); err != nil {
		return err
	}
	if s.failed > 0 {
		p.note("%d of the chunks that are stored cannot be decoded, and count in no figure", s.failed)
	}
	r.Sample = Sample{
		Seed: p.options.Seed, Grid: s.grid, Looked: s.looked, Missing: s.missing, Failed: s.failed, Read: len(s.chunks), Bytes: s.total,
	}
	if s.first != nil {
		r.Sample.Failure = strings.ReplaceAll(s.first.Error(), "\n", "; ")
	}
	r.Sizes, r.Structure = sizesOf(s.sizes(), int64(p.recipe.size)), structure.report()
	r.Storage.FirstGBPerS = s.firstRead
	if r.Storage.AgainGBPerS, err = p.readAgain(ctx, s); err != nil {
		return err
	}
	if r.Host, err = p.host(ctx, s, structure); err != nil {
		return err
	}
	m := &machine{again: r.Storage.AgainGBPerS, convert: r.Host.ConvertGBPerSCore, cores: float64(r.Host.Cores), scale: float64(r.Host.Cores)}
	if r.Host.GBPerSCore > 0 {
		m.scale = r.Host.GBPerS / r.Host.GBPerSCore
	}
	if err := p.onGPU(ctx, r, m, s, structure); err != nil {
		return err
	}
	stored := 0.0
	if r.Sizes != nil {
		stored = r.Sizes.StoredBytes
	}
	r.Crop = newCrop(p.array, crop, stored, float64(len(s.extents))/float64(max(1, s.looked-s.failed)))
	return p.table(ctx, r, m, t, structure)
}

// check decodes every chunk once, drops those that are broken, counts what is inside
// the others, and keeps the first ones for the candidates.
func (p *probe) check(ctx context.Context, s *sample) (*trial, *Structure, error) {
	t, structure := &trial{}, &Structure{}
	elements, _ := nd.Product(p.array.Leaf().Chunk)
	whole, err := p.recipe.chain()
	if err != nil {
		return nil, nil, err
	}
	onBytes, err := codec.NewChain(codecs(p.recipe.bytes), -1)
	if err != nil {
		return nil, nil, err
	}
	scratch, dst := codec.NewScratch(), p.room(0, p.recipe.size)
	defer scratch.Close()
	coding := p.coding()
	good, places := s.chunks[:0], s.places[:0]
	room := triedBytes
	for i, data := range s.chunks {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		p.say("check chunks", int64(i), int64(len(s.chunks)))
		decoded, err := whole.Decode(dst, data, scratch) // dst, or a part of data where that is plain
		if err == nil {                                  // of what is broken, nothing is counted
			err = new(Structure).Add(coding.method, coding.body(data), int64(p.recipe.size))
		}
		if err != nil {
			if err = s.fail(p.atExtent(err, s.places[i])); err != nil {
				return nil, nil, err
			}
			s.total -= int64(len(data))
			s.places[i].broken = true
			continue
		}
		if err := structure.Add(coding.method, coding.body(data), int64(p.recipe.size)); err != nil {
			return nil, nil, p.atExtent(err, s.places[i])
		}
		good, places = append(good, data), append(places, s.places[i])
		if room > 0 {
			if err := p.keep(t, onBytes, data, decoded, scratch, elements, &room); err != nil {
				return nil, nil, p.atExtent(err, s.places[i])
			}
		}
	}
	s.chunks, s.places = good, places
	s.extents = slices.DeleteFunc(s.extents, func(e *extent) bool { return e.broken })
	return t, structure, nil
}

// keep keeps a chunk, or the begin of a large one, as the codecs on bytes leave it.
// decoded is the chunk, where nothing comes after those codecs.
func (p *probe) keep(t *trial, onBytes *codec.Chain, data, decoded []byte, scratch *codec.Scratch, elements int64, room *int) error {
	r, plain := p.recipe, decoded
	switch {
	case len(r.bytes)+len(r.rest) == 0:
		plain = data
	case len(r.rest) > 0:
		// Between codecs on bytes and filters a chunk has a size that only they know.
		out, err := onBytes.Decode(p.room(1, 2*r.size+1<<16), data, scratch)
		if err != nil {
			return err
		}
		plain = out
	}
	if t.elementBytes = 1; elements > 0 && int64(len(plain))%elements == 0 {
		t.elementBytes = int(int64(len(plain)) / elements)
	}
	if t.elementBytes > 255 || t.elementBytes < 1 {
		t.elementBytes = 1
	}
	t.stored, t.sizes = append(t.stored, data), append(t.sizes, len(plain))
	t.plain = append(t.plain, slices.Clone(plain[:min(len(plain), triedBytes)]))
	*room -= len(plain)
	return nil
}

// readTime is enough for thousands of reads.
const readTime = 200 * time.Millisecond

// readAgain times the same reads by all cores, over and over: from the page cache, if
// the sample is in it.
func (p *probe) readAgain(ctx context.Context, s *sample) (float64, error) {
	list := slices.DeleteFunc(slices.Clone(s.places), func(e *extent) bool { return e.bytes != nil })
	if len(list) == 0 {
		return 0, nil
	}
	largest := int64(0)
	for _, e := range list {
		largest = max(largest, e.size)
	}
	goroutines := int(min(int64(runtime.GOMAXPROCS(0)), max(1, maxDecoded/max(1, largest))))
	p.say("read again", 0, 0)
	counts := make([]int64, goroutines)
	began := time.Now()
	until := began.Add(min(p.options.Time/2, readTime))
	err := p.each(ctx, goroutines, goroutines, func(g int) error {
		buffer := make([]byte, largest)
		for i := g; counts[g] == 0 || time.Now().Before(until) && ctx.Err() == nil; i++ {
			e := list[i%len(list)]
			if err := e.read(ctx, p.store, buffer[:e.size]); err != nil {
				return p.atExtent(err, e)
			}
			counts[g] += max(1, e.size)
		}
		return nil
	})
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(began).Seconds() / 1e9, err
}
