package pipeline

import (
	"errors"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Meta is what the pusher of a batch wants to find on it again.
type Meta struct {
	Epoch, Step int64
	View        int64
	Turn        int64 // of a job whose ranks come and go: agentapi.Place.Turn
}

// Event is something that happens later on a device. Wait blocks until it has
// happened. A nil Event has happened already.
type Event interface{ Wait() error }

// Tensor is one field of a batch. It is C-contiguous.
type Tensor struct {
	Name  string
	DType nd.DType
	// Shape is [samples, extents...].
	Shape []int64
	// Data is the memory of the tensor on the host, little-endian, valid until the
	// batch's last Release. It is nil where the batch lies on a GPU.
	Data []byte
	// Address is where the tensor lies on the GPU of a batch there, else 0. It is a
	// multiple of 256.
	Address uint64
}

// Batch is a finished batch in one slot of the pipeline. It starts with one
// reference, which the receiver of Next owns. All methods may be called from any
// goroutine; none but Release and Retain may be called after the last Release.
type Batch struct {
	seq     int64
	meta    Meta
	samples []sampler.Sample // those that are in the batch, in order
	errs    []error          // of samples that were skipped or filled
	fields  []*fieldLayout
	slot    *slot // nil for a batch of no samples
	refs    atomic.Int32
	place   place
	free    func(*Batch)
	freed   func(Meta) // nil, or what OnFree was given
}

// Tensor is the field of that name; it panics never: an unknown name gives a
// Tensor without dtype.
func (b *Batch) Tensor(field string) Tensor {
	for i, f := range b.fields {
		if f.name == field {
			return b.TensorAt(i)
		}
	}
	return Tensor{Name: field}
}

// TensorAt is field i in the order of Config.Fields.
func (b *Batch) TensorAt(i int) Tensor {
	f := b.fields[i]
	t := Tensor{Name: f.name, DType: f.dtype, Shape: make([]int64, 1+len(f.shape))}
	n := len(b.samples)
	t.Shape[0] = int64(n)
	for k, e := range f.shape {
		t.Shape[1+k] = int64(e)
	}
	switch {
	case b.slot == nil:
	case b.slot.addr != 0:
		t.Address = uint64(b.slot.addr) + uint64(f.offset)
	default:
		t.Data = b.slot.mem[f.offset : f.offset+n*f.sampleBytes]
	}
	return t
}

// Fields lists the names of the tensors in the order of Config.Fields.
func (b *Batch) Fields() []string {
	names := make([]string, len(b.fields))
	for i, f := range b.fields {
		names[i] = f.name
	}
	return names
}

// Meta is what PushBatch was given; for batches grouped by Push, Step counts
// them from 0.
func (b *Batch) Meta() Meta { return b.meta }

// Samples are the samples in the batch, in order. The slice and its boxes belong
// to the batch.
func (b *Batch) Samples() []sampler.Sample { return b.samples }

// Errs are the *SampleErrors of samples that were skipped or filled.
func (b *Batch) Errs() []error { return b.errs }

// Retain adds a reference. After the last Release it does nothing: the slot is
// another batch's by then, and the Release that belongs to this Retain says so.
func (b *Batch) Retain() {
	for {
		n := b.refs.Load()
		if n <= 0 || b.refs.CompareAndSwap(n, n+1) {
			return
		}
	}
}

// Release drops a reference. With the last one the slot becomes free for another
// batch, which is not written before the events of all releases have happened. It
// does not block, save that after Close the last Release waits for the events and
// gives the memory back to the system. Releasing more often than retained is an
// error of kind nd.ErrClosed and changes nothing.
func (b *Batch) Release(after Event) error {
	owed := after == nil || b.slot == nil
	for {
		n := b.refs.Load()
		if n <= 0 {
			return nd.Errorf(nd.ErrClosed, "batch %d was released already", b.seq)
		}
		if !owed { // while the reference keeps the slot ours
			b.slot.owe(after)
			owed = true
		}
		if b.refs.CompareAndSwap(n, n-1) {
			if n == 1 {
				b.free(b)
				if b.freed != nil {
					b.freed(b.meta)
				}
			}
			return nil
		}
	}
}

// OnFree has a function called once after the last Release, by who releases. It is for
// the receiver of Next, before the batch goes to anyone else.
func (b *Batch) OnFree(f func(Meta)) { b.freed = f }

// ReleaseOn is Release after the work that a stream of the batch's GPU has been
// given so far: the slot is not written again before that is done, and nobody
// waits on the host. The stream is a CUstream; 0 and 1 are the legacy default
// stream, 2 the default stream of the calling thread. On the host it is Release.
//
// A stream that is no more cannot be asked: then this is ReleaseAfterAll. Whether a
// driver notices is its own affair, so that consumers keep their streams.
func (b *Batch) ReleaseOn(stream uintptr) error {
	if b.slot == nil {
		return b.Release(nil)
	}
	after, err := b.place.mark(stream)
	if err != nil {
		return b.ReleaseAfterAll()
	}
	if err := b.Release(after); err != nil { // released too often: nobody waits for it
		forgo(after)
		return err
	}
	return nil
}

// ReleaseAfterAll is Release after all work that this process has given the batch's
// GPU so far, for a consumer whose stream is not known. It waits for that work.
func (b *Batch) ReleaseAfterAll() error {
	if b.slot == nil {
		return b.Release(nil)
	}
	return errors.Join(b.place.drain(), b.Release(nil))
}

// GPU is the ordinal of the GPU that the batch lies on; false on the host.
func (b *Batch) GPU() (ordinal int, ok bool) { return b.place.ordinal() }

// Export lets other processes see the allocation of a batch on a GPU, which stays
// theirs to look at until the last Release. false: the batch lies on the host, or has
// no samples.
func (b *Batch) Export() (Exported, bool, error) {
	if b.slot == nil {
		return Exported{}, false, nil
	}
	return b.place.export(b.slot)
}

// Bytes is the size of field i.
func (b *Batch) Bytes(i int) int64 { return int64(len(b.samples)) * int64(b.fields[i].sampleBytes) }

// CopyTo copies field i to dst, which has at least the tensor's bytes, wherever the
// batch lies. It is for tools and tests: it waits for the copy.
func (b *Batch) CopyTo(dst []byte, i int) error {
	if b.slot == nil {
		return nil
	}
	return b.place.copyOut(dst[:b.Bytes(i)], b.slot, b.fields[i].offset)
}

// fieldLayout is where a field lies within a slot.
type fieldLayout struct {
	name        string
	dtype       nd.DType
	shape       []int   // extents of the tensor after the batch axis
	order       []int   // crop axes in the order of the tensor's
	strides     []int64 // bytes between neighbours in the tensor along each crop axis
	offset      int     // of the field within the slot
	sampleBytes int
	pad         Pad
	padElem     []byte // PadValue as one element
	crop        []int  // extents of a crop in the array's axes
}
