// Package export streams one box of an array through the engine, however large
// it is.
//
//	box -> slabs of bounded bytes -> pipeline (batches of one crop) -> writer
//
// The engine makes a whole crop in memory. A box of many GiB is therefore cut
// along its first axis (or, where even one index of that is too large, along the
// next ones) into crops of one shape, which come out of the pipeline in order.
package export

import (
	"context"
	"errors"
	"io"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// Spec says what to read and how.
type Spec struct {
	Array pipeline.ArrayRef
	// Box is in the array's axes. It may reach outside as far as Pad allows.
	Box nd.Box
	// Chunk is the extent of the array's chunks.
	Chunk []int64
	// DType is never nd.Invalid.
	DType    nd.DType
	Axes     []int // as in pipeline.Field; nil keeps the order
	Flip     uint32
	Pad      pipeline.Pad
	PadValue float64
	Device   pipeline.Device
	// SlabBytes bounds one crop, 0 is the default of 64 MiB.
	SlabBytes int64
	// Report is told the bytes that are done.
	Report func(done, total int64)
}

const (
	// slabBytes keeps a few seconds of work between two reports on a slow disk, and
	// is large against a chunk.
	slabBytes = 64 << 20
	slots     = 3 // one being written out, one ready, one in the making
)

// Shape is the shape of what is written.
func (s *Spec) Shape() []int64 {
	shape := make([]int64, len(s.Box))
	for i := range shape {
		shape[i] = s.Box[s.axis(i)].Len()
	}
	return shape
}

func (s *Spec) axis(i int) int {
	if s.Axes == nil {
		return i
	}
	return s.Axes[i]
}

// Write writes the elements of the box, little-endian and in C order of Shape.
func (s *Spec) Write(ctx context.Context, w io.Writer) error {
	total, ok := nd.Product(s.Shape())
	size := int64(s.DType.Size())
	if !ok || total > (1<<62)/size {
		return nd.Errorf(nd.ErrBudget, "box %v holds more than 2^62 bytes", s.Box)
	}
	if total == 0 {
		return nil
	}
	return s.stream(ctx, w, s.slabs(), total*size)
}

func (s *Spec) slabs() slabs {
	limit := s.SlabBytes
	if limit == 0 {
		limit = slabBytes
	}
	grain := make([]int64, len(s.Box))
	for i := range grain {
		grain[i] = s.Chunk[s.axis(i)]
	}
	return cut(s.Shape(), grain, int64(s.DType.Size()), limit)
}

func (s *Spec) stream(ctx context.Context, w io.Writer, pieces slabs, total int64) (err error) {
	p, err := pipeline.Open(ctx, s.config(pieces))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	pushed := make(chan struct{})
	go s.push(ctx, cancel, p, pieces, pushed)
	err = s.drain(ctx, w, p, pieces, total)
	cancel(err)
	<-pushed
	return err
}

func (s *Spec) config(pieces slabs) pipeline.Config {
	field := pipeline.Field{
		Name: "crop", Shape: make([]int, len(s.Box)), Axes: s.Axes, DType: s.DType,
		Pad: s.Pad, PadValue: s.PadValue,
	}
	for i, n := range pieces.extents() {
		field.Shape[s.axis(i)] = int(n)
	}
	return pipeline.Config{
		Arrays: []pipeline.ArrayRef{s.Array}, Fields: []pipeline.Field{field},
		BatchSize: 1, Device: s.Device, Slots: slots,
	}
}

// push feeds the slabs in order; a failure ends ctx with its cause.
func (s *Spec) push(ctx context.Context, cancel context.CancelCauseFunc, p *pipeline.Pipeline, pieces slabs, done chan<- struct{}) {
	defer close(done)
	id := int64(0)
	for piece := range pieces.all {
		crop := sampler.Crop{Box: s.crop(piece.box), Flip: s.Flip}
		if err := p.Push(ctx, sampler.Sample{ID: id, Crops: []sampler.Crop{crop}}); err != nil {
			cancel(err)
			return
		}
		id++
	}
}

// crop is the box of the array that becomes a box of the tensor.
func (s *Spec) crop(tensor nd.Box) nd.Box {
	box := make(nd.Box, len(tensor))
	for i, span := range tensor {
		axis := s.axis(i)
		whole := s.Box[axis]
		if s.Flip>>axis&1 == 1 {
			box[axis] = nd.Span{Start: whole.Stop - span.Stop, Stop: whole.Stop - span.Start}
		} else {
			box[axis] = nd.Span{Start: whole.Start + span.Start, Stop: whole.Start + span.Stop}
		}
	}
	return box
}

// drain writes the batches as they come.
func (s *Spec) drain(ctx context.Context, w io.Writer, p *pipeline.Pipeline, pieces slabs, total int64) error {
	done := int64(0)
	for piece := range pieces.all {
		b, err := p.Next(ctx)
		if err != nil {
			return plain(ctx, err)
		}
		data := b.Tensor("crop").Data
		if s.Device != "cpu" {
			data = make([]byte, b.Bytes(0))
			if err := b.CopyTo(data, 0); err != nil {
				return errors.Join(err, b.Release(nil))
			}
		}
		if piece.skip > 0 {
			data = data[int64(len(data))/pieces.rows*piece.skip:]
		}
		_, err = w.Write(data)
		if err := errors.Join(err, b.Release(nil)); err != nil {
			return err
		}
		done += int64(len(data))
		if s.Report != nil {
			s.Report(done, total)
		}
	}
	return nil
}

// plain is the reason alone: the crops are this package's, so their numbers say
// nothing to the caller.
func plain(ctx context.Context, err error) error {
	if sample, ok := errors.AsType[*pipeline.SampleError](err); ok {
		return sample.Err
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}
