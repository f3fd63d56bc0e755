package probe

import (
	"context"
	"encoding/binary"
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
	device                  *cuda.Device
	stream                  *cuda.Stream
	module                  *cuda.Module
	decode, inflate, crc32c cuda.Function
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
	if err = g.loadKernels(); err == nil {
		g.stream, err = g.device.NewStream(0)
	}
	if err != nil {
		return nil, errors.Join(err, g.device.Close())
	}
	return g, nil
}

func (g *gpu) loadKernels() (err error) {
	if g.module, err = g.device.LoadModule(kernels.Images()); err != nil {
		return err
	}
	for name, f := range map[string]*cuda.Function{kernels.Decode: &g.decode, kernels.Inflate: &g.inflate, kernels.Crc32c: &g.crc32c} {
		if *f, err = g.module.Function(name); err != nil {
			return err
		}
	}
	return nil
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

// kernelMethod is how the kernels call a method.
func kernelMethod(m Method) uint8 {
	switch m {
	case Zstd:
		return kernels.Zstd
	case BloscZstd:
		return kernels.BloscZstd
	case LZ4:
		return kernels.LZ4
	case BloscLZ4, BloscLZ:
		return kernels.Blosc
	case Shuffle:
		return kernels.Unshuffle
	case Gzip:
		return kernels.Gzip
	case Zlib:
		return kernels.Zlib
	case BloscZlib:
		return kernels.BloscZlib
	}
	return kernels.Host
}

// decodes reports whether there are kernels for the coding in this program's image.
func (g *gpu) decodes(c coding) bool {
	return g != nil && c.device && kernelMethod(c.method) != kernels.Host
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
	pinned     [][]byte
	table      cuda.Ptr // chunks, then statuses
	host       []byte   // the same, pinned
	begin, end *cuda.Event
	call       *decode.Call // of zstd
	kernel     cuda.Function
	block      int
	params     []byte // of kernel, and of the one that compares checksums
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
	if kernels.FamilyOf(kernelMethod(b.coding.method)) == kernels.ZstdFamily {
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

func (b *batch) allocHost(n int64) ([]byte, error) {
	mem, err := b.gpu.device.AllocHost(max(n, alignment))
	if err == nil {
		b.pinned = append(b.pinned, mem)
	}
	return mem, err
}

// open places the stored chunks on the device and the table in pinned memory.
func (b *batch) open() (err error) {
	src, at, err := b.upload()
	if err != nil {
		return err
	}
	room := int64(b.n) * aligned(b.size)
	dst, err := b.alloc(room)
	if err != nil {
		return err
	}
	scratch, err := b.alloc(room)
	if err != nil {
		return err
	}
	statusAt := int64(b.n) * kernels.ChunkBytes
	if b.table, err = b.alloc(statusAt + 4*int64(b.n)); err != nil {
		return err
	}
	if b.host, err = b.allocHost(statusAt + 4*int64(b.n)); err != nil {
		return err
	}
	method := kernelMethod(b.coding.method)
	flags := uint16(0)
	if b.coding.summed {
		flags = kernels.Summed
	}
	list := b.host[:0]
	for i := range b.n {
		k := i % len(b.stored)
		to := uint64(i) * uint64(aligned(b.size))
		list = kernels.Chunk{
			Src: uint64(src) + uint64(at[k]), SrcBytes: uint32(len(b.coding.body(b.stored[k]))), Dst: uint64(dst) + to, Scratch: uint64(scratch) + to,
			DstBytes: uint32(b.size), Status: uint32(i), Method: method, Typesize: uint8(b.coding.typesize), Flags: flags,
		}.Append(list)
	}
	if b.begin, err = b.gpu.device.NewTimedEvent(); err != nil {
		return err
	}
	if b.end, err = b.gpu.device.NewTimedEvent(); err != nil {
		return err
	}
	b.params = kernels.DecodeParams{Chunks: uint64(b.table), Status: uint64(b.table) + uint64(statusAt), N: uint32(b.n)}.Append(nil)
	switch kernels.FamilyOf(method) {
	case kernels.ZstdFamily:
		return b.openZstd()
	case kernels.InflateFamily:
		b.kernel, b.block = b.gpu.inflate, kernels.InflateBlock
	default:
		b.kernel, b.block = b.gpu.decode, kernels.DecodeBlock
	}
	return nil
}

func (b *batch) openZstd() error {
	z, err := decode.NewZstd(b.gpu.device, b.gpu.module)
	if err != nil {
		return err
	}
	bytes, err := b.limits().Scratch()
	if err != nil {
		return err
	}
	work, err := b.alloc(bytes)
	if err != nil {
		return err
	}
	b.call, err = z.NewCall(b.limits(), work)
	return err
}

// upload copies the stored chunks to the device, and says where each lies.
func (b *batch) upload() (src cuda.Ptr, at []int64, err error) {
	total := int64(0)
	for _, s := range b.stored {
		at = append(at, total)
		total += aligned(len(s)) + alignment
	}
	host, err := b.allocHost(total)
	if err != nil {
		return 0, nil, err
	}
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

// decode makes the call and gives the time of its kernels.
func (b *batch) decode() (time.Duration, error) {
	s := b.gpu.stream
	statusAt := cuda.Ptr(b.n) * kernels.ChunkBytes
	host := cuda.Address(b.host)
	var list cuda.Commands
	list.Copy(s, b.table, host, int64(statusAt))
	list.Record(s, b.begin)
	if b.call != nil {
		if err := b.call.Append(&list, s, b.table, b.table+statusAt, b.n); err != nil {
			return 0, err
		}
	} else {
		list.Launch(s, b.kernel, b.n, b.block, 0, b.params)
	}
	if b.coding.summed {
		list.Launch(s, b.gpu.crc32c, b.n, kernels.Crc32cBlock, 0, b.params)
	}
	list.Record(s, b.end)
	list.Copy(s, host+statusAt, b.table+statusAt, 4*int64(b.n))
	if err := errors.Join(b.gpu.device.Run(&list), s.Drain()); err != nil {
		return 0, err
	}
	if err := statuses(b.host[statusAt:]); err != nil {
		return 0, err
	}
	return b.end.Since(b.begin)
}

// statuses is an error for the first chunk that was not decoded. The host has decoded
// all of them before.
func statuses(words []byte) error {
	for i := 0; 4*i < len(words); i++ {
		if s := binary.LittleEndian.Uint32(words[4*i:]); s != kernels.OK {
			return nd.Errorf(nd.ErrUnsupported, "the GPU leaves chunk %d of a call to the host (status %d)", i, s)
		}
	}
	return nil
}

// close gives everything back.
func (b *batch) close() (err error) {
	if b.call != nil {
		err = b.call.Close()
	}
	for _, e := range []*cuda.Event{b.begin, b.end} {
		if e != nil {
			err = errors.Join(err, e.Close())
		}
	}
	for _, p := range b.memory {
		err = errors.Join(err, b.gpu.device.Free(p))
	}
	for _, mem := range b.pinned {
		err = errors.Join(err, b.gpu.device.FreeHost(mem))
	}
	return err
}
