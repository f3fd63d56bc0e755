package cuda

import "math"

// LowPriority is a stream priority below all others. (Most GPUs have none below
// the default.)
const LowPriority = math.MaxInt32

// Stream is a queue of work: what is enqueued on it runs in order.
type Stream struct{ *object }

// NewStream makes a stream that does not wait for the legacy default stream.
// Priority 0 is the default and less is more urgent, up to what the device has.
func (d *Device) NewStream(priority int) (*Stream, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.life.leave()
	w := words{uint64(int64(priority))}
	if err := d.call(opStreamNew, &w, nil, "making a stream"); err != nil {
		return nil, err
	}
	return &Stream{d.own("stream", w[0], opStreamDestroy)}, nil
}

// Wrap makes a Stream of somebody else's handle: a CUstream, 0 or 1 for the legacy
// default stream, 2 for the per-thread one. Its owner keeps it alive while it is
// in use here, and destroys it.
func (d *Device) Wrap(handle uintptr) *Stream {
	return &Stream{&object{life: newLifetime(), device: d, kind: "wrapped stream", handle: uint64(handle)}}
}

// Handle is the driver's CUstream, valid until Close.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Drain blocks until all work enqueued so far is done. It holds a thread: an
// event is the better thing to wait for where much waits.
func (s *Stream) Drain() error {
	w := words{s.handle}
	return s.call(opStreamDrain, &w, nil, "draining a stream")
}

// Close destroys the stream once its calls in flight are done; work enqueued on it
// still runs.
func (s *Stream) Close() error { return s.close() }
