package cuda

import "github.com/headrace/headrace/nd"

// object is a handle of the driver that belongs to a device: a stream, an event,
// a module.
type object struct {
	life    lifetime
	device  *Device
	kind    string // for messages
	handle  uint64
	destroy op // 0 = not ours to destroy
}

// own makes an object and puts it on the list of what the device frees.
func (d *Device) own(kind string, handle uint64, destroy op) *object {
	o := &object{life: newLifetime(), device: d, kind: kind, handle: handle, destroy: destroy}
	d.mu.Lock()
	d.mu.objects[o] = struct{}{}
	d.mu.Unlock()
	return o
}

// enter begins a call on the object: neither it nor its device goes away before leave.
func (o *object) enter() error {
	if err := o.device.enter(); err != nil {
		return err
	}
	if !o.life.enter() {
		o.device.life.leave()
		return nd.Errorf(nd.ErrClosed, "%s of GPU %d", o.kind, o.device.info.Ordinal)
	}
	return nil
}

func (o *object) leave() {
	o.life.leave()
	o.device.life.leave()
}

// call does one operation on the object.
func (o *object) call(which op, w *words, bytes []byte, what string) error {
	if err := o.enter(); err != nil {
		return err
	}
	defer o.leave()
	return o.device.call(which, w, bytes, what)
}

// close destroys the handle once; a device that was closed has done it already.
func (o *object) close() error {
	if !o.life.close() || o.device.enter() != nil {
		return nil
	}
	defer o.device.life.leave()
	d := o.device
	d.mu.Lock()
	delete(d.mu.objects, o)
	d.mu.Unlock()
	return o.free()
}

// free destroys the handle; the object is off the device's list and has no users.
func (o *object) free() error {
	if o.destroy == 0 {
		return nil
	}
	w := words{o.handle}
	return o.device.call(o.destroy, &w, nil, "closing the "+o.kind)
}
