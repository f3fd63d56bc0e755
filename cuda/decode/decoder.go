package decode

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// A Chunk is SrcBytes of frames at Src, which decode to DstBytes at Dst, both in
// device memory. Dst begins at a multiple of 16. Src may begin anywhere; the aligned
// 16 bytes that hold a byte of it must be readable.
type Chunk struct {
	Src, Dst           cuda.Ptr
	SrcBytes, DstBytes int
	Unchecked          bool // content checksums are not verified
}

// Decoder decodes a batch of chunks at a time, with memory of its own: scratch on the
// device, a table of chunks and their statuses. It belongs to one goroutine. Several
// decoders on a device work beside each other.
type Decoder struct {
	device   *cuda.Device
	module   *cuda.Module
	call     *Call
	limits   Limits
	commands cuda.Commands
	scratch  cuda.Ptr
	table    cuda.Ptr // chunks, then statuses
	host     []byte   // the same, pinned
	done     *cuda.Event
	started  int // chunks of the batch in flight
}

// Open takes the memory for batches within limits.
func Open(device *cuda.Device, limits Limits) (*Decoder, error) {
	d := &Decoder{device: device, limits: limits}
	if err := d.open(); err != nil {
		_ = d.Close() // the first error counts
		return nil, err
	}
	return d, nil
}

func (d *Decoder) open() (err error) {
	bytes, err := d.limits.Scratch()
	if err != nil {
		return err
	}
	if d.module, err = d.device.LoadModule(kernels.Images()); err != nil {
		return err
	}
	z, err := NewZstd(d.device, d.module)
	if err != nil {
		return err
	}
	if d.scratch, err = d.device.Alloc(bytes); err != nil {
		return err
	}
	if d.table, err = d.device.Alloc(d.statusAt(d.limits.Chunks + 1)); err != nil {
		return err
	}
	if d.host, err = d.device.AllocHost(d.statusAt(d.limits.Chunks + 1)); err != nil {
		return err
	}
	if d.done, err = d.device.NewEvent(false); err != nil {
		return err
	}
	d.call, err = z.NewCall(d.limits, d.scratch)
	return err
}

// statusAt is where in the table the status of a chunk is.
func (d *Decoder) statusAt(i int) int64 {
	return int64(d.limits.Chunks)*kernels.ChunkBytes + 4*int64(i)
}

// Start enqueues the decoding of a batch on a stream and returns. Sources and
// destinations must stay until Wait has returned. A batch that is still in flight must be
// waited for first.
func (d *Decoder) Start(stream *cuda.Stream, chunks []Chunk) error {
	if err := d.admit(chunks); err != nil || len(chunks) == 0 {
		return err
	}
	b := d.host[:0]
	for i, c := range chunks {
		k := kernels.Chunk{
			Src: uint64(c.Src), Dst: uint64(c.Dst), SrcBytes: uint32(c.SrcBytes), DstBytes: uint32(c.DstBytes), Status: uint32(i),
			Method: kernels.Zstd,
		}
		if c.Unchecked {
			k.Flags = kernels.Unchecked
		}
		b = k.Append(b)
	}
	host, status := cuda.Address(d.host), cuda.Ptr(d.statusAt(0))
	d.commands.Reset()
	d.commands.Copy(stream, d.table, host, int64(len(b)))
	if err := d.call.Append(&d.commands, stream, d.table, d.table+status, len(chunks)); err != nil {
		return err
	}
	d.commands.Copy(stream, host+status, d.table+status, 4*int64(len(chunks)))
	d.commands.Record(stream, d.done)
	if err := d.device.Run(&d.commands); err != nil {
		return err
	}
	d.started = len(chunks)
	return nil
}

// admit checks a batch against the limits.
func (d *Decoder) admit(chunks []Chunk) error {
	if d.started > 0 {
		return nd.Errorf(nd.ErrBug, "a batch of %d chunks is in flight and was not waited for", d.started)
	}
	if len(chunks) > d.limits.Chunks {
		return nd.Errorf(nd.ErrBudget, "a batch of %d chunks, the decoder was opened for %d", len(chunks), d.limits.Chunks)
	}
	total := int64(0)
	for i, c := range chunks {
		if c.SrcBytes < 0 || c.DstBytes < 0 || c.SrcBytes > math.MaxInt32 || c.DstBytes > math.MaxInt32 || c.Dst%16 != 0 {
			return nd.Errorf(nd.ErrBug, "chunk %d of %d bytes, decoded to %d at %#x: at most %d, at a multiple of 16", i, c.SrcBytes, c.DstBytes, c.Dst, math.MaxInt32)
		}
		total += int64(c.DstBytes)
	}
	if total > d.limits.Bytes {
		return nd.Errorf(nd.ErrBudget, "a batch that decodes to %d bytes, the decoder was opened for %d", total, d.limits.Bytes)
	}
	return nil
}

// Wait blocks until the batch is decoded. Of each chunk it appends an error to errs, or nil; its
// own error says that the device failed, and nothing is known of the chunks.
func (d *Decoder) Wait(errs []error) ([]error, error) {
	n := d.started
	if n == 0 {
		return errs, nil
	}
	if err := d.done.Wait(); err != nil {
		return errs, err
	}
	d.started = 0
	for i := range n {
		errs = append(errs, statusError(binary.LittleEndian.Uint32(d.host[d.statusAt(i):])))
	}
	return errs, nil
}

func statusError(status uint32) error {
	switch status {
	case kernels.OK:
		return nil
	case kernels.Corrupt:
		return nd.Errorf(nd.ErrCorrupt, "zstd: the frames break the format, their checksum, or decode to another length")
	default:
		return nd.Errorf(nd.ErrUnsupported, "zstd: a chunk that the GPU leaves to the host's decoder")
	}
}

// Close waits for the batch in flight and gives everything back.
func (d *Decoder) Close() error {
	_, first := d.Wait(nil)
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if d.call != nil {
		keep(d.call.Close())
	}
	if d.done != nil {
		keep(d.done.Close())
	}
	if d.host != nil {
		keep(d.device.FreeHost(d.host))
	}
	for _, p := range []cuda.Ptr{d.table, d.scratch} {
		if p != 0 {
			keep(d.device.Free(p))
		}
	}
	if d.module != nil {
		keep(d.module.Close())
	}
	*d = Decoder{device: d.device}
	return first
}
