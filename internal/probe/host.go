package probe

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// maxDecoded bounds the memory of goroutines that decode, together; one chunk is always decoded.
const maxDecoded = 512 << 20

// newRooms are for as many goroutines as there are cores, and for a stage between two codecs.
func newRooms() [][]byte { return make([][]byte, max(2, runtime.GOMAXPROCS(0))) }

// room is memory of goroutine g, n bytes that hold what it left there. It is taken once: a chunk may have a GiB.
func (p *probe) room(g, n int) []byte {
	if cap(p.rooms[g]) < n {
		p.rooms[g] = make([]byte, n)
	}
	return p.rooms[g][:n]
}

// decoding is a chain with chunks for it.
type decoding struct {
	chain  *codec.Chain
	chunks [][]byte
	sizes  []int // decoded bytes of each
}

// all decodes the chunks round and round for so long on some goroutines: GB/s decoded,
// of all together, and which part of the time they ran.
func (p *probe) all(ctx context.Context, d decoding, goroutines int, long time.Duration) (rate, share float64, err error) {
	counts, times := make([]int64, goroutines), make([]turn, goroutines)
	began := time.Now()
	err = p.each(ctx, goroutines, goroutines, func(g int) (err error) {
		start := time.Now()
		_, counts[g], err = d.run(ctx, p.room(g, d.largest()), g*len(d.chunks)/goroutines, func(ran time.Duration) bool {
			times[g] = turn{ran, time.Since(start)}
			return time.Since(began) < long
		})
		return err
	})
	total, sum := int64(0), turn{}
	for g, n := range counts {
		total += n
		sum.ran, sum.took = sum.ran+times[g].ran, sum.took+times[g].took
	}
	if sum.took > 0 {
		share = min(1, sum.ran.Seconds()/sum.took.Seconds())
	}
	return float64(total) / time.Since(began).Seconds() / 1e9, share, err
}

// turn is how long a thread ran, and how long it wanted to.
type turn struct{ ran, took time.Duration }

// one is the rate of one core in GB/s decoded. Of each chunk the shortest time counts,
// and of that what the thread ran: others that want the core do not show.
func (p *probe) one(ctx context.Context, d decoding, long time.Duration) (float64, error) {
	began := time.Now()
	least, _, err := d.run(ctx, p.room(0, d.largest()), 0, func(ran time.Duration) bool { return ran < long && time.Since(began) < patience*long })
	bytes, took := 0, time.Duration(0)
	for i, t := range least {
		if t > 0 {
			bytes, took = bytes+d.sizes[i], took+t
		}
	}
	if err != nil || took == 0 {
		return 0, err
	}
	return float64(bytes) / took.Seconds() / 1e9, nil
}

// patience is how many times longer a measurement may take where others have the core.
const patience = 5

// largest is the most decoded bytes of a chunk.
func (d *decoding) largest() int { return slices.Max(append([]int{0}, d.sizes...)) }

// run decodes from chunk number i on, one at least, to dst, as long as more says; that is told
// how long the thread has run. It gives the shortest time of each chunk and the bytes of
// all that it did.
func (d *decoding) run(ctx context.Context, dst []byte, i int, more func(ran time.Duration) bool) (least []time.Duration, total int64, err error) {
	scratch := codec.NewScratch()
	defer scratch.Close()
	least = make([]time.Duration, len(d.chunks))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first := cpuTime()
	for now := first; total == 0 || more(now-first) && ctx.Err() == nil; i++ {
		k := i % len(d.chunks)
		if _, err := d.chain.Decode(dst[:d.sizes[k]], d.chunks[k], scratch); err != nil {
			return least, total, err
		}
		total += int64(max(1, d.sizes[k]))
		began := now
		now = cpuTime()
		if took := max(1, now-began); least[k] == 0 || took < least[k] {
			least[k] = took
		}
	}
	return least, total, nil
}

// Host is what the processor of this machine does with the chunks as they are stored.
type Host struct {
	Cores   int    `json:"cores"`
	Library string `json:"zstd_library"`
	// GB/s decoded, measured here; 0 where nothing is decoded.
	GBPerSCore float64 `json:"gb_per_s_core"`
	GBPerS     float64 `json:"gb_per_s"` // by Workers goroutines
	Workers    int     `json:"workers"`  // as many as cores, less for huge chunks
	// CPUShare is which part of the time those goroutines ran: less than 1 where others had the cores. 0
	// where nothing was measured.
	CPUShare float64 `json:"cpu_share"`
	// Plain says that a codec found the chunks not to compress and kept plain bytes: nothing is decoded.
	Plain bool `json:"plain"`
	// GB/s of f32 elements converted from the array's type by one core, measured here.
	ConvertGBPerSCore float64 `json:"convert_gb_per_s_core"`
}

// host measures the decoder: on one core with the others idle, and on all of them.
func (p *probe) host(ctx context.Context, s *sample, structure *Structure) (Host, error) {
	h := Host{Cores: runtime.GOMAXPROCS(0), Library: codec.ZstdLibrary}
	var err error
	if h.ConvertGBPerSCore, err = p.convertRate(ctx); err != nil || len(s.chunks) == 0 {
		return h, err
	}
	d := decoding{chunks: s.chunks, sizes: make([]int, len(s.chunks))}
	for i := range d.sizes {
		d.sizes[i] = p.recipe.size
	}
	if d.chain, err = p.recipe.chain(); err != nil || len(p.recipe.bytes)+len(p.recipe.rest) == 0 {
		return h, err
	}
	if h.Plain = p.plain(structure); h.Plain {
		return h, nil
	}
	p.say("decode on the host", 0, 0)
	if h.GBPerSCore, err = p.one(ctx, d, p.options.Time); err != nil {
		return h, err
	}
	h.Workers = min(h.Cores, max(1, maxDecoded/p.recipe.size))
	h.GBPerS, h.CPUShare, err = p.all(ctx, d, h.Workers, p.options.Time)
	if h.CPUShare < quietShare && p.options.Time >= readTime {
		p.note("others used this machine: what decoded on %d cores ran %.0f %% of the time, so rates of all cores are too low; measure again when it is idle", h.Workers, h.CPUShare*100)
	}
	return h, err
}

// quietShare is what goroutines get of cores that nobody else wants, and some more.
const quietShare = 0.9

// plain reports whether nothing is decoded: all chunks hold plain bytes, and nothing else is to be
// done with them.
func (p *probe) plain(s *Structure) bool {
	return len(p.recipe.rest) == 0 && !p.coding().gpu.Summed && s.Plain > 0 && s.Plain >= s.Decoded
}

// convertRate times the conversion of a run of elements to f32 on one core. Complex
// elements become themselves, and count as pairs of f32.
func (p *probe) convertRate(ctx context.Context) (float64, error) {
	from, to, n, counted := p.array.DType.DType, nd.F32, 64<<10, nd.F32.Size()
	if from.Complex() {
		to, counted = from, nd.C64.Size()
	}
	turn, err := codec.Converter(from, to, p.array.Leaf().Big, nil)
	if err != nil {
		return 0, err
	}
	src, dst := make([]byte, n*from.Size()), make([]byte, n*to.Size())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	until, began, total := time.Now().Add(min(p.options.Time/8, readTime)), cpuTime(), 0
	for total == 0 || time.Now().Before(until) && ctx.Err() == nil {
		turn(dst, src, n)
		total += n * counted
	}
	return float64(total) / max(1, cpuTime()-began).Seconds() / 1e9, nil
}
