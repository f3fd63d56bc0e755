package cuda

import (
	"time"

	"github.com/headrace/headrace/nd"
)

// Event marks a point in a stream, see Commands.Record. Before its first record
// it counts as passed.
type Event struct {
	*object
	interprocess bool
}

// NewEvent makes an event that keeps no time. Wait sleeps instead of spinning, on all events.
// An interprocess one can be exported.
func (d *Device) NewEvent(interprocess bool) (*Event, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.life.leave()
	var w words
	if interprocess {
		w[0] = 1
	}
	if err := d.call(opEventNew, &w, nil, "making an event"); err != nil {
		return nil, err
	}
	return &Event{d.own("event", w[0], opEventDestroy), interprocess}, nil
}

// NewTimedEvent makes an event that keeps the time at which the GPU passes it.
func (d *Device) NewTimedEvent() (*Event, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.life.leave()
	w := words{0, 1}
	if err := d.call(opEventNew, &w, nil, "making a timed event"); err != nil {
		return nil, err
	}
	return &Event{d.own("event", w[0], opEventDestroy), false}, nil
}

// Since is the time on the GPU from one event to this one, negative if this one came
// first; it is exact to a microsecond where they lie within seconds. Both are timed events
// of one GPU that it has passed.
func (e *Event) Since(begin *Event) (time.Duration, error) {
	if begin.device != e.device {
		return 0, nd.Errorf(nd.ErrBug, "the time between events of two devices")
	}
	if err := begin.enter(); err != nil {
		return 0, err
	}
	defer begin.leave()
	w := words{begin.handle, e.handle}
	err := e.call(opEventElapsed, &w, nil, "asking for the time between two events")
	return time.Duration(int64(w[0])), err
}

// Wait blocks until the GPU has passed the latest record. It holds a thread
// meanwhile. Errors of the work before it come out here.
func (e *Event) Wait() error {
	w := words{e.handle}
	return e.call(opEventWait, &w, nil, "waiting for an event")
}

// Done says whether the GPU has passed the latest record, without waiting.
func (e *Event) Done() (bool, error) {
	if err := e.enter(); err != nil {
		return false, err
	}
	defer e.leave()
	w := words{e.handle}
	code := e.device.driver.lib.call(e.device.context, opEventQuery, &w, nil)
	if code == codeSuccess || code == codeNotReady {
		return code == codeSuccess, nil
	}
	return false, e.device.fail(code, "asking for an event")
}

// Handle is the driver's CUevent, valid until Close.
func (e *Event) Handle() uintptr { return uintptr(e.handle) }

// Close destroys the event once its calls in flight are done.
func (e *Event) Close() error { return e.close() }
