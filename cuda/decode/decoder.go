package decode

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// A Chunk is SrcBytes of encoded bytes at Src, which decode to DstBytes at Dst.
//
// Dst is device memory and begins at a multiple of 16. Src may begin anywhere, in device memory
// or in pinned or registered host memory; the aligned 16 bytes that hold a byte of it
// must be readable.
type Chunk struct {
	Src, Dst           cuda.Ptr
	SrcBytes, DstBytes int
	Method             uint8 // kernels.Zstd and so on
	Typesize           int   // up to 255, of elements whose bytes are apart; 0 and 1: they are not
	Unchecked          bool  // checksums that are part of the format are not compared
	Summed             bool  // a CRC-32C of the SrcBytes, little-endian, follows them: it is compared
}

// Decoder decodes a batch of chunks at a time, with memory of its own: scratch on the
// device, a table of chunks and their statuses. Its methods may be called by any goroutine; they
// follow each other: while one of them waits for the device, the others wait for it. Several
// decoders on a device work beside each other.
type Decoder struct {
	mu     sync.Mutex // of all below
	device *cuda.Device
	open   bool
	module *cuda.Module
	limits Limits
	takes  [kernels.Families]bool

	plain, inflate, sums step
	zstd                 *Call // nil if it takes none
	commands             cuda.Commands
	params               []byte

	scratch cuda.Ptr // zstd's
	second  cuda.Ptr // where shuffled chunks are decoded to
	table   cuda.Ptr // chunks, then statuses
	host    []byte   // the same, pinned
	done    *cuda.Event
	started []uint8 // methods of the batch in flight
	// failed is what the device said when it was last waited for. If there is a batch, waiting again
	// may mend that.
	failed error
}

// Open takes the memory for batches within limits, of chunks of the given methods
// (kernels.Zstd and so on) or, if there are none, of all. Memory that only others need is not
// taken.
func Open(device *cuda.Device, limits Limits, methods ...uint8) (*Decoder, error) {
	if device == nil {
		return nil, nd.Errorf(nd.ErrConfig, "a decoder without a device")
	}
	if err := limits.check(); err != nil {
		return nil, err
	}
	d := &Decoder{device: device, limits: limits}
	for _, m := range methods {
		f := kernels.FamilyOf(m)
		if f == kernels.Families {
			return nil, nd.Errorf(nd.ErrUnsupported, "no kernel decodes method %d", m)
		}
		d.takes[f] = true
	}
	if len(methods) == 0 {
		d.takes = [kernels.Families]bool{true, true, true}
	}
	if err := d.take(); err != nil {
		_ = d.giveBack() // the first error counts
		return nil, err
	}
	d.open = true
	return d, nil
}

// take takes all that the decoder needs from the device.
func (d *Decoder) take() (err error) {
	if d.module, err = d.device.LoadModule(kernels.Images()); err != nil {
		return err
	}
	for _, k := range []struct {
		name  string
		block int
		step  *step
	}{
		{kernels.Decode, kernels.DecodeBlock, &d.plain},
		{kernels.Inflate, kernels.InflateBlock, &d.inflate},
		{kernels.Crc32c, kernels.Crc32cBlock, &d.sums},
	} {
		if *k.step, err = findStep(d.device, d.module, k.name, k.block, 0); err != nil {
			return err
		}
	}
	if d.takes[kernels.ZstdFamily] {
		if err := d.openZstd(); err != nil {
			return err
		}
	}
	if n := d.limits.second(); n > 0 {
		if d.second, err = d.device.Alloc(n); err != nil {
			return err
		}
	}
	if d.table, err = d.device.Alloc(d.statusAt(d.limits.Chunks + 1)); err != nil {
		return err
	}
	if d.host, err = d.device.AllocHost(d.statusAt(d.limits.Chunks + 1)); err != nil {
		return err
	}
	d.done, err = d.device.NewEvent(false)
	return err
}

func (d *Decoder) openZstd() error {
	z, err := NewZstd(d.device, d.module)
	if err != nil {
		return err
	}
	bytes, err := d.limits.Scratch()
	if err != nil {
		return err
	}
	if d.scratch, err = d.device.Alloc(bytes); err != nil {
		return err
	}
	d.zstd, err = z.NewCall(d.limits, d.scratch)
	return err
}

// statusAt is where in the table the status of a chunk is.
func (d *Decoder) statusAt(i int) int64 {
	return int64(d.limits.Chunks)*kernels.ChunkBytes + 4*int64(i)
}

// Start enqueues the decoding of a batch on a stream and returns. Sources and
// destinations must stay until Wait has returned. A batch that is still in flight must be
// waited for first. No chunks are no batch: there is nothing to wait for.
//
// If it fails, nothing is in flight, and nothing of the batch is read or written any more: where
// the driver refused a command among others, Start has waited until the stream is idle. If the device did
// not allow that either, it is lost: all calls but Close give its error from then on.
func (d *Decoder) Start(stream *cuda.Stream, chunks []Chunk) error {
	if d == nil {
		return errNotOpen()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admit(stream, chunks); err != nil || len(chunks) == 0 {
		return err
	}
	if err := d.enqueue(stream, chunks); err != nil {
		return err
	}
	if err := d.device.Run(&d.commands); err != nil {
		return d.refused(stream, err)
	}
	for _, c := range chunks {
		d.started = append(d.started, c.Method)
	}
	return nil
}

// enqueue lists the commands for a batch.
func (d *Decoder) enqueue(stream *cuda.Stream, chunks []Chunk) error {
	count, summed := d.list(chunks)
	host, status := cuda.Address(d.host), cuda.Ptr(d.statusAt(0))
	d.commands.Reset()
	d.commands.Copy(stream, d.table, host, int64(len(chunks))*kernels.ChunkBytes)
	at := d.table
	for f, n := range count {
		if err := d.decode(stream, kernels.Family(f), at, n); err != nil {
			return err
		}
		at += cuda.Ptr(n * kernels.ChunkBytes)
	}
	if summed {
		d.launch(stream, d.sums, min(len(chunks), d.sums.resident(d.device, d.limits.SMs)), d.table, len(chunks))
	}
	d.commands.Copy(stream, host+status, d.table+status, 4*int64(len(chunks)))
	d.commands.Record(stream, d.done)
	return nil
}

// refused is what becomes of commands that could not be enqueued, for this error: those before the one
// that the driver refused run.
func (d *Decoder) refused(stream *cuda.Stream, err error) error {
	if errors.Is(err, nd.ErrBug) { // found before the first command
		return nd.Errorf(nd.ErrConfig, "%v", err)
	}
	if status := (*cuda.DriverError)(nil); !errors.As(err, &status) {
		return err // closed: nothing runs
	}
	d.failed = stream.Drain()
	if d.zstd != nil { // its other stream may not have been joined
		d.failed = errors.Join(d.failed, d.zstd.side.Drain())
	}
	if d.failed != nil {
		d.failed = nd.Errorf(nd.ErrDevice, "%v; then %w", err, d.failed)
		return d.failed
	}
	return err
}

// list writes the table, the chunks of a family beside each other, and says how many
// these are.
func (d *Decoder) list(chunks []Chunk) (count [kernels.Families]int, summed bool) {
	for _, c := range chunks {
		count[kernels.FamilyOf(c.Method)]++
	}
	var next [kernels.Families]int
	for f := range kernels.Families - 1 {
		next[f+1] = next[f] + count[f]
	}
	second := d.second
	for i, c := range chunks {
		k := kernels.Chunk{
			Src: uint64(c.Src), Dst: uint64(c.Dst), SrcBytes: uint32(c.SrcBytes), DstBytes: uint32(c.DstBytes), Status: uint32(i),
			Method: c.Method, Typesize: uint8(c.Typesize),
		}
		if c.shuffled() {
			k.Scratch = uint64(second)
			second += (cuda.Ptr(c.DstBytes) + 15) / 16 * 16
		}
		if c.Unchecked {
			k.Flags |= kernels.Unchecked
		}
		if c.Summed {
			k.Flags |= kernels.Summed
			summed = true
		}
		f := kernels.FamilyOf(c.Method)
		k.Append(d.host[:next[f]*kernels.ChunkBytes])
		next[f]++
	}
	return count, summed
}

// decode enqueues the kernels of a family for n chunks of the table.
func (d *Decoder) decode(stream *cuda.Stream, f kernels.Family, at cuda.Ptr, n int) error {
	switch {
	case n == 0:
	case f == kernels.ZstdFamily:
		return d.zstd.Append(&d.commands, stream, at, d.table+cuda.Ptr(d.statusAt(0)), n)
	case f == kernels.InflateFamily:
		d.launch(stream, d.inflate, d.inflate.forItems(d.device, d.limits.SMs, n), at, n)
	default:
		d.launch(stream, d.plain, d.plain.forItems(d.device, d.limits.SMs, n), at, n)
	}
	return nil
}

// launch enqueues a kernel for n chunks of the table.
func (d *Decoder) launch(stream *cuda.Stream, s step, grid int, at cuda.Ptr, n int) {
	d.params = kernels.DecodeParams{Chunks: uint64(at), Status: uint64(d.table) + uint64(d.statusAt(0)), N: uint32(n)}.Append(d.params[:0])
	s.launch(&d.commands, stream, grid, d.params)
}

// errNotOpen is the error of a decoder that nobody opened, or that was closed.
func errNotOpen() error { return nd.Errorf(nd.ErrClosed, "the decoder") }

// admit checks a batch against the limits.
func (d *Decoder) admit(stream *cuda.Stream, chunks []Chunk) error {
	switch {
	case !d.open:
		return errNotOpen()
	case d.failed != nil:
		return d.failed
	case len(d.started) > 0:
		return nd.Errorf(nd.ErrConfig, "a batch of %d chunks is in flight and was not waited for", len(d.started))
	case len(chunks) > 0 && (stream == nil || *stream == cuda.Stream{}):
		return nd.Errorf(nd.ErrConfig, "a batch of %d chunks without a stream", len(chunks))
	}
	if len(chunks) > d.limits.Chunks {
		return nd.Errorf(nd.ErrBudget, "a batch of %d chunks, the decoder was opened for %d", len(chunks), d.limits.Chunks)
	}
	total, shuffled := int64(0), int64(0)
	for i, c := range chunks {
		if err := d.admitChunk(i, c); err != nil {
			return err
		}
		total += int64(c.DstBytes)
		if c.shuffled() {
			shuffled += int64(c.DstBytes)
		}
	}
	if total > d.limits.Bytes {
		return nd.Errorf(nd.ErrBudget, "a batch that decodes to %d bytes, the decoder was opened for %d", total, d.limits.Bytes)
	}
	if most := max(0, d.limits.Shuffled); shuffled > most {
		return nd.Errorf(nd.ErrBudget, "a batch whose shuffled chunks decode to %d bytes, the decoder was opened for %d", shuffled, most)
	}
	return nil
}

func (d *Decoder) admitChunk(i int, c Chunk) error {
	f := kernels.FamilyOf(c.Method)
	switch {
	case f == kernels.Families:
		return nd.Errorf(nd.ErrUnsupported, "chunk %d: no kernel decodes method %d", i, c.Method)
	case !d.takes[f]:
		return nd.Errorf(nd.ErrConfig, "chunk %d: %s, the decoder was opened for other methods: name it in Open", i, MethodName(c.Method))
	case c.SrcBytes < 0 || c.DstBytes < 0 || c.SrcBytes > math.MaxInt32 || c.DstBytes > math.MaxInt32 || c.Dst%16 != 0:
		return nd.Errorf(nd.ErrConfig, "chunk %d of %d bytes, decoded to %d at %#x: at most %d, at a multiple of 16", i, c.SrcBytes, c.DstBytes, c.Dst, math.MaxInt32)
	case c.Typesize < 0 || c.Typesize > math.MaxUint8:
		return nd.Errorf(nd.ErrConfig, "chunk %d: elements of %d bytes, at most %d", i, c.Typesize, math.MaxUint8)
	}
	return nil
}

// Wait blocks until the batch is decoded. Of each chunk it appends an error to errs, or nil. That a chunk
// breaks its format, its checksum or its length is one error here; the decoders of package codec say
// of the same bytes which it is. Wait's
// own error says that the device failed, and nothing is known of the chunks. Then the batch is still
// in flight, and Wait may be called again. Without a batch Wait does nothing; after Close it
// is [nd.ErrClosed].
func (d *Decoder) Wait(errs []error) ([]error, error) {
	if d == nil {
		return errs, errNotOpen()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		return errs, errNotOpen()
	}
	return d.wait(errs)
}

func (d *Decoder) wait(errs []error) ([]error, error) {
	if len(d.started) == 0 {
		return errs, d.failed
	}
	if d.failed = d.done.Wait(); d.failed != nil {
		return errs, d.failed
	}
	for i, method := range d.started {
		errs = append(errs, statusError(binary.LittleEndian.Uint32(d.host[d.statusAt(i):]), method))
	}
	d.started = d.started[:0]
	return errs, nil
}

// Close waits for the batch in flight, whose errors are dropped, and gives everything back. Closing
// again does nothing.
func (d *Decoder) Close() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		return nil
	}
	d.open = false
	_, first := d.wait(nil)
	if err := d.giveBack(); first == nil {
		first = err
	}
	return first
}

// giveBack gives the device what was taken from it.
func (d *Decoder) giveBack() (first error) {
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if d.zstd != nil {
		keep(d.zstd.Close())
	}
	if d.done != nil {
		keep(d.done.Close())
	}
	if d.host != nil {
		keep(d.device.FreeHost(d.host))
	}
	for _, p := range []cuda.Ptr{d.table, d.second, d.scratch} {
		if p != 0 {
			keep(d.device.Free(p))
		}
	}
	if d.module != nil {
		keep(d.module.Close())
	}
	return first
}
