package cuda

import (
	"sync"
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// Device is an open GPU: a hold on its primary context and all that was made in
// it. It may be opened more than once, also by others in the process.
type Device struct {
	driver  *Driver
	info    Info
	context uint64
	life    lifetime
	broken  atomic.Bool
	mu      struct {
		sync.Mutex
		objects map[*object]struct{}
		memory  map[Ptr]region
	}
}

// Open retains the primary context of a device, making it if need be.
func (d *Driver) Open(ordinal int) (*Device, error) {
	info, err := d.Describe(ordinal)
	if err != nil {
		return nil, err
	}
	dev := &Device{driver: d, info: info, life: newLifetime()}
	dev.mu.objects = map[*object]struct{}{}
	dev.mu.memory = map[Ptr]region{}
	w := words{uint64(ordinal)}
	if code := d.lib.call(0, opRetain, &w, nil); code != codeSuccess {
		return nil, dev.fail(code, "making the context")
	}
	dev.context = w[0]
	return dev, nil
}

// Info describes the device; it works after Close too.
func (d *Device) Info() Info { return d.info }

// Broken says whether the context is lost. It stays so until the process ends.
func (d *Device) Broken() bool { return d.broken.Load() }

// MemInfo tells how much device memory is free, for any process, and how much
// there is.
func (d *Device) MemInfo() (free, total int64, err error) {
	var w words
	err = d.do(opMemInfo, &w, nil, "asking for free memory")
	return int64(w[0]), int64(w[1]), err
}

// Synchronize blocks until all work is done that anybody in the process has given
// the device's streams so far. It holds a thread, and waits for work that is none of
// the caller's business: an event is the better thing where the stream is known.
func (d *Device) Synchronize() error {
	var w words
	return d.do(opSynchronize, &w, nil, "synchronizing")
}

// Close waits for the calls in flight, drains the device's own streams, frees all
// that was made from the device and lets the context go. It returns the first
// error, having gone on after it.
func (d *Device) Close() error {
	if !d.life.close() {
		return nil
	}
	err := first(d.drain(), first(d.freeObjects(), d.freeMemory()))
	w := words{uint64(d.info.Ordinal)}
	if code := d.driver.lib.call(0, opRelease, &w, nil); code != codeSuccess {
		err = first(err, d.fail(code, "releasing the context"))
	}
	return err
}

// drain waits for the streams that the device made, so that nothing uses what is
// freed next.
func (d *Device) drain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := range d.mu.objects {
		if o.destroy != opStreamDestroy {
			continue
		}
		w := words{o.handle}
		if err := d.call(opStreamDrain, &w, nil, "draining a stream"); err != nil {
			return err // the context is lost: no stream runs any more
		}
	}
	return nil
}

func (d *Device) freeObjects() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o := range d.mu.objects {
		err = first(err, o.free())
	}
	d.mu.objects = nil
	return err
}

func (d *Device) freeMemory() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, r := range d.mu.memory {
		w := words{uint64(p)}
		err = first(err, d.call(r.kind.free(), &w, nil, "freeing "+r.kind.String()))
	}
	d.mu.memory = nil
	return err
}

// first keeps the first of two errors: after a lost context they all say the same.
func first(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// enter begins a call on the device; life.leave ends it.
func (d *Device) enter() error {
	if !d.life.enter() {
		return nd.Errorf(nd.ErrClosed, "GPU %d", d.info.Ordinal)
	}
	return nil
}

// call does one operation in the context, for a caller that has entered.
func (d *Device) call(which op, w *words, bytes []byte, what string) error {
	if code := d.driver.lib.call(d.context, which, w, bytes); code != codeSuccess {
		return d.fail(code, what)
	}
	return nil
}

// do enters, calls and leaves.
func (d *Device) do(which op, w *words, bytes []byte, what string) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.life.leave()
	return d.call(which, w, bytes, what)
}
