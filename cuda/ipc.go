package cuda

import "github.com/headrace/headrace/nd"

// IPCHandle names memory or an event for another process on the same machine.
type IPCHandle = [64]byte

// ExportMemory makes a handle for an allocation; p is what Alloc gave. The
// importer sees the whole allocation.
func (d *Device) ExportMemory(p Ptr) (handle IPCHandle, err error) {
	if err := d.enter(); err != nil {
		return handle, err
	}
	defer d.life.leave()
	d.mu.Lock()
	r, ok := d.mu.memory[p]
	d.mu.Unlock()
	if !ok || r.kind != deviceMemory {
		return handle, nd.Errorf(nd.ErrBug, "%#x is no start of device memory: it cannot be exported", uint64(p))
	}
	w := words{uint64(p)}
	err = d.call(opExportMemory, &w, handle[:], "exporting memory")
	return handle, err
}

// ExportEvent makes a handle for an event that was made interprocess.
func (d *Device) ExportEvent(e *Event) (handle IPCHandle, err error) {
	if !e.interprocess {
		return handle, nd.Errorf(nd.ErrBug, "an event that is not interprocess cannot be exported")
	}
	w := words{e.handle}
	err = e.call(opExportEvent, &w, handle[:], "exporting an event")
	return handle, err
}

// ImportMemory maps an allocation of another process. Its own is refused.
func (d *Device) ImportMemory(handle IPCHandle) (Ptr, error) {
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.life.leave()
	var w words
	if err := d.call(opImportMemory, &w, handle[:], "importing memory"); err != nil {
		return 0, err
	}
	d.note(Ptr(w[0]), region{kind: importedMemory})
	return Ptr(w[0]), nil
}

// CloseMemory unmaps what ImportMemory mapped.
func (d *Device) CloseMemory(p Ptr) error { return d.giveBack(importedMemory, p) }

// ImportEvent opens an event of another process.
func (d *Device) ImportEvent(handle IPCHandle) (*Event, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.life.leave()
	var w words
	if err := d.call(opImportEvent, &w, handle[:], "importing an event"); err != nil {
		return nil, err
	}
	return &Event{d.own("imported event", w[0], opEventDestroy), false}, nil
}
