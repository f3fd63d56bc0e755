package decode

import (
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// Zstd is the kernels of zstd on a device. It is immutable and valid as long as the
// module.
type Zstd struct {
	device *cuda.Device
	begin  []step // one after the other
	// These two are bound by latency and run beside each other.
	literals, sequences step
	execute, wide       step // one of these, see executeStep
	finish              step
}

// NewZstd finds the kernels in a module made of kernels.Images.
func NewZstd(device *cuda.Device, module *cuda.Module) (*Zstd, error) {
	if device == nil || module == nil {
		return nil, nd.Errorf(nd.ErrConfig, "the kernels of zstd without a device and a module")
	}
	z := &Zstd{device: device, begin: make([]step, 4)}
	for _, k := range []struct {
		name          string
		block, shared int
		step          *step
	}{
		{kernels.ZstdScan, kernels.ZstdScanBlock, 0, &z.begin[0]},
		{kernels.ZstdTables, kernels.ZstdTablesBlock, 0, &z.begin[1]},
		{kernels.ZstdCount, kernels.ZstdOrderBlock, 0, &z.begin[2]},
		{kernels.ZstdOrder, kernels.ZstdOrderBlock, 0, &z.begin[3]},
		{kernels.ZstdLiterals, kernels.ZstdLiteralsBlock, 0, &z.literals},
		{kernels.ZstdSequences, kernels.ZstdSequencesBlock, kernels.ZstdSequencesShared, &z.sequences},
		{kernels.ZstdExecute, kernels.ZstdExecuteBlock, 0, &z.execute},
		{kernels.ZstdExecuteWide, kernels.ZstdExecuteWideBlock, 0, &z.wide},
		{kernels.ZstdFinish, kernels.ZstdFinishBlock, 0, &z.finish},
	} {
		s, err := findStep(device, module, k.name, k.block, k.shared)
		if err != nil {
			return nil, err
		}
		*k.step = s
	}
	return z, nil
}

// Call is what one call in flight needs beside its memory. It belongs to one
// goroutine. A call may begin when the one before it on the same Call is done on the
// device: on one stream it is.
type Call struct {
	zstd              *Zstd
	limits            Limits
	scratch           cuda.Ptr
	side              *cuda.Stream
	forked, forkedFew *cuda.Event
	joined            *cuda.Event
	params            []byte
}

// NewCall makes a Call that works in the scratch memory at an address, a multiple of
// 16, of limits.Scratch bytes. The memory stays the caller's.
func (z *Zstd) NewCall(limits Limits, scratch cuda.Ptr) (*Call, error) {
	if err := limits.check(); err != nil {
		return nil, err
	}
	if scratch%16 != 0 {
		return nil, nd.Errorf(nd.ErrConfig, "scratch memory at %#x, not at a multiple of 16", scratch)
	}
	c := &Call{zstd: z, limits: limits, scratch: scratch}
	err := c.open()
	if err != nil {
		_ = c.Close() // the first error counts
		return nil, err
	}
	return c, nil
}

func (c *Call) open() (err error) {
	if c.side, err = c.zstd.device.NewStream(0); err != nil {
		return err
	}
	if c.forkedFew, err = c.zstd.device.NewEvent(false); err != nil {
		return err
	}
	if c.forked, err = c.zstd.device.NewTimedEvent(); err != nil {
		return err
	}
	c.joined, err = c.zstd.device.NewEvent(false)
	return err
}

// Append adds the decoding of n chunks to the commands of a stream. table is the address of their
// kernels.Chunk, of Zstd or BloscZstd, status that of the words that these name; both stay as they
// are until the stream has passed. More chunks than the limits allow are [nd.ErrConfig].
func (c *Call) Append(commands *cuda.Commands, stream *cuda.Stream, table, status cuda.Ptr, n int) error {
	if n < 0 || n > c.limits.Chunks {
		return nd.Errorf(nd.ErrConfig, "a call of %d chunks, at most %d", n, c.limits.Chunks)
	}
	if n == 0 {
		return nil
	}
	if stream == nil {
		return nd.Errorf(nd.ErrConfig, "a call of %d chunks without a stream", n)
	}
	c.params = kernels.ZstdParams{
		Chunks: uint64(table), Status: uint64(status), Work: uint64(c.scratch),
		Arena: uint64(c.limits.Arena), N: uint32(n), Blocks: uint32(c.limits.blocks()),
	}.Append(c.params[:0])
	commands.Set(stream, c.scratch, 0, kernels.ZstdHeadBytes)
	for _, s := range c.zstd.begin {
		c.launch(commands, stream, s)
	}
	forked := c.fork(n)
	commands.Record(stream, forked)
	c.launch(commands, stream, c.zstd.sequences) // before the literals, which measured faster
	commands.Await(c.side, forked)
	c.launch(commands, c.side, c.zstd.literals)
	commands.Record(c.side, c.joined)
	commands.Await(stream, c.joined)
	c.launch(commands, stream, c.executeStep(n))
	c.launch(commands, stream, c.zstd.finish)
	return nil
}

// fork is the event behind which sequences and literals of n chunks begin. One that keeps the time, though
// nobody asks for it, makes calls of many chunks equally fast; behind another one half of them were
// slower by a fifth, why is not known (docs/decisions/011). Few chunks do without.
func (c *Call) fork(n int) *cuda.Event {
	if c.few(n) {
		return c.forkedFew
	}
	return c.forked
}

// few is whether the wide kernel takes n chunks all at once.
func (c *Call) few(n int) bool { return n <= c.zstd.wide.resident(c.zstd.device, c.limits.SMs) }

// executeStep is the kernel that has the more threads at work on n chunks: the wide one, as long
// as it takes all of them at once.
func (c *Call) executeStep(n int) step {
	if c.few(n) {
		return c.zstd.wide
	}
	return c.zstd.execute
}

func (c *Call) launch(commands *cuda.Commands, stream *cuda.Stream, s step) {
	s.launch(commands, stream, s.resident(c.zstd.device, c.limits.SMs), c.params)
}

// Close gives back the stream and the events; work that was appended still runs.
func (c *Call) Close() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if c.side != nil {
		keep(c.side.Close())
	}
	for _, e := range []*cuda.Event{c.forked, c.forkedFew, c.joined} {
		if e != nil {
			keep(e.Close())
		}
	}
	return first
}
