package probe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// gpu is a GPU that is measured. One goroutine.
type gpu struct {
	device *cuda.Device
	stream *cuda.Stream
}

const (
	copyBytes = 16 << 20 // of one copy: the full rate of a link
	runs      = 5        // of which the median counts
	gpuMost   = 8 << 30  // of a GPU's memory, and at most half of what is free
)

// openGPU opens the GPU of that name; nil for cpu. For "", a driver that is not there is
// nil too, and one that does not work is said in a note.
func (p *probe) openGPU() error {
	name := p.options.Device
	if name == "cpu" {
		return nil
	}
	asked := name != ""
	if !asked {
		name = "cuda:0"
	}
	if !cuda.IsName(name) {
		return nd.Errorf(nd.ErrConfig, "device %q: cpu, cuda:N, GPU-<uuid> or MIG-<uuid>", name)
	}
	driver, err := cuda.Load(p.options.Driver)
	if err != nil && !asked {
		return nil
	}
	if err == nil {
		p.gpu, err = openOn(driver, name)
	}
	if err != nil && !asked {
		p.note("no GPU is measured: %v", err)
		return nil
	}
	return err
}

func openOn(driver *cuda.Driver, name string) (*gpu, error) {
	ordinal, err := driver.Find(name)
	if err != nil {
		return nil, err
	}
	g := &gpu{}
	if g.device, err = driver.Open(ordinal); err != nil {
		return nil, err
	}
	if g.stream, err = g.device.NewStream(0); err != nil {
		return nil, errors.Join(err, g.device.Close())
	}
	return g, nil
}

// close gives back all that was made from the device.
func (g *gpu) close() error {
	if g == nil {
		return nil
	}
	return g.device.Close()
}

// copyRate measures copies from pinned memory, in GB/s.
func (g *gpu) copyRate(ctx context.Context) (_ float64, err error) {
	host, err := g.device.AllocHost(copyBytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.device.FreeHost(host)) }()
	there, err := g.device.Alloc(copyBytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.device.Free(there)) }()
	took, err := g.median(ctx, func() error {
		var c cuda.Commands
		for range 4 {
			c.Copy(g.stream, there, cuda.Address(host), copyBytes)
		}
		if err := g.device.Run(&c); err != nil {
			return err
		}
		return g.stream.Drain()
	})
	return 4 * copyBytes / took.Seconds() / 1e9, err
}

// median runs something once, and then for the time that it takes.
func (g *gpu) median(ctx context.Context, do func() error) (time.Duration, error) {
	times := make([]time.Duration, 0, runs+1)
	for range runs + 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	times = times[1:]
	slices.Sort(times)
	return max(times[len(times)/2], 1), nil
}

// decodes reports whether there are kernels for the coding in this program's image.
func (g *gpu) decodes(c coding) bool {
	return g != nil && c.device && c.gpu.Method != kernels.Copy
}

// wave decodes n chunks in a call, the stored ones over and over, and times it on the
// GPU: some times, fewer where that would last beyond until. It gives nil if there is no room for so many.
// size is what each is decoded to.
func (g *gpu) wave(ctx context.Context, c coding, stored [][]byte, size, n int, until time.Time) (_ *Wave, err error) {
	b := &batch{gpu: g, coding: c, stored: stored, size: size, n: n}
	fits, err := b.fits()
	if err != nil || !fits {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(); err != nil {
		return nil, err
	}
	var times []time.Duration
	began := time.Now()
	for len(times) <= runs && (len(times) == 0 || time.Now().Before(until)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, err := b.decode()
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	each := time.Since(began) / time.Duration(len(times))
	if len(times) > 1 { // the first one warms up
		times = times[1:]
	}
	slices.Sort(times)
	ms := max(times[len(times)/2], time.Microsecond).Seconds() * 1e3
	return &Wave{Chunks: n, MS: ms, GBPerS: float64(n) * float64(size) / ms / 1e6, From: Here, each: each}, nil
}

// batch is a call: memory of a GPU with chunks to decode in it, and what decodes them.
type batch struct {
	gpu     *gpu
	coding  coding
	stored  [][]byte
	size, n int

	memory     []cuda.Ptr // what is given back at the end
	decoder    *decode.Decoder
	chunks     []decode.Chunk
	errs       []error
	begin, end *cuda.Event
}

const alignment = 16 // of sources, so that vectors can be read, and of destinations

func aligned(n int) int64 { return (int64(n) + alignment - 1) &^ (alignment - 1) }

// blockArena is what a block takes of the decoder's arena whatever its length: small
// chunks need more room than the decoder's default, which goes by bytes.
const blockArena = 4 << 10

func (b *batch) limits() decode.Limits {
	l := decode.Limits{Chunks: b.n, Bytes: int64(b.n) * int64(b.size)}
	l.Arena = l.DefaultArena() + int64(b.n)*blockArena
	return l
}

// fits compares what the batch takes with what is free.
func (b *batch) fits() (bool, error) {
	free, _, err := b.gpu.device.MemInfo()
	if err != nil {
		return false, err
	}
	need := int64(b.n) * aligned(b.size) * 2
	if kernels.FamilyOf(b.coding.gpu.Method) == kernels.ZstdFamily {
		work, err := b.limits().Scratch()
		if err != nil {
			return false, err
		}
		need += work
	}
	for _, s := range b.stored {
		need += aligned(len(s)) + alignment
	}
	return need <= min(free/2, gpuMost) && int64(b.n)*int64(b.size) <= waveMost, nil
}

// alloc takes device memory that close gives back.
func (b *batch) alloc(n int64) (cuda.Ptr, error) {
	p, err := b.gpu.device.Alloc(max(n, alignment))
	if err == nil {
		b.memory = append(b.memory, p)
	}
	return p, err
}

// open places the stored chunks on the device.
func (b *batch) open() (err error) {
	src, at, err := b.upload()
	if err != nil {
		return err
	}
	dst, err := b.alloc(int64(b.n) * aligned(b.size))
	if err != nil {
		return err
	}
	as := b.coding.gpu
	for i := range b.n {
		k := i % len(b.stored)
		b.chunks = append(b.chunks, decode.Chunk{
			Src: src + cuda.Ptr(at[k]), SrcBytes: len(b.coding.body(b.stored[k])), Dst: dst + cuda.Ptr(i)*cuda.Ptr(aligned(b.size)), DstBytes: b.size,
			Method: as.Method, Typesize: int(as.Typesize), Summed: as.Summed,
		})
	}
	if b.decoder, err = decode.Open(b.gpu.device, b.limits(), as.Method); err != nil {
		return err
	}
	if b.begin, err = b.gpu.device.NewTimedEvent(); err != nil {
		return err
	}
	b.end, err = b.gpu.device.NewTimedEvent()
	return err
}

// upload copies the stored chunks to the device, and says where each lies.
func (b *batch) upload() (src cuda.Ptr, at []int64, err error) {
	total := int64(0)
	for _, s := range b.stored {
		at = append(at, total)
		total += aligned(len(s)) + alignment
	}
	host, err := b.gpu.device.AllocHost(total)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, b.gpu.device.FreeHost(host)) }()
	for i, s := range b.stored {
		copy(host[at[i]:], s)
	}
	if src, err = b.alloc(total); err != nil {
		return 0, nil, err
	}
	var c cuda.Commands
	c.Copy(b.gpu.stream, src, cuda.Address(host), total)
	return src, at, errors.Join(b.gpu.device.Run(&c), b.gpu.stream.Drain())
}

// decode makes the call and gives the time of its kernels, and of a table of some bytes a chunk that
// is copied before and behind them. The host has decoded all the chunks before.
func (b *batch) decode() (time.Duration, error) {
	if err := b.record(b.begin); err != nil {
		return 0, err
	}
	if err := b.decoder.Start(b.gpu.stream, b.chunks); err != nil {
		return 0, err
	}
	err := b.record(b.end)
	if b.errs, err = b.wait(err); err != nil {
		return 0, err
	}
	for i, err := range b.errs {
		if err != nil {
			return 0, nd.Errorf(nd.ErrUnsupported, "the GPU leaves chunk %d of a call to the host: %w", i, err)
		}
	}
	return b.end.Since(b.begin)
}

func (b *batch) record(e *cuda.Event) error {
	var list cuda.Commands
	list.Record(b.gpu.stream, e)
	return b.gpu.device.Run(&list)
}

// wait is for the decoder and for what was recorded behind it.
func (b *batch) wait(first error) ([]error, error) {
	errs, err := b.decoder.Wait(b.errs[:0])
	return errs, errors.Join(first, err, b.gpu.stream.Drain())
}

// close gives everything back.
func (b *batch) close() (err error) {
	if b.decoder != nil {
		err = b.decoder.Close()
	}
	for _, e := range []*cuda.Event{b.begin, b.end} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	for _, p := range b.memory {
		err = errors.Join(err, b.gpu.device.Free(p))
	}
	return err
}
