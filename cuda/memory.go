package cuda

import (
	"fmt"
	"unsafe"

	"github.com/headrace/headrace/nd"
)

// Ptr is an address that the GPU can use: of device memory, or of pinned or
// registered host memory, which has the same address on both sides.
type Ptr uint64

// Address is the address of host memory that was pinned or registered.
func Address(mem []byte) Ptr { return Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// regionKind says how memory was taken, and so how it is given back.
type regionKind uint8

const (
	deviceMemory regionKind = iota
	pinnedMemory
	registeredMemory
	importedMemory
)

// region is memory that the device must give back.
type region struct {
	kind regionKind
	size int64
}

func (k regionKind) String() string {
	return [...]string{"device memory", "pinned host memory", "registered host memory", "imported device memory"}[k]
}

func (k regionKind) free() op {
	return [...]op{opFree, opFreeHost, opUnregister, opCloseMemory}[k]
}

// Alloc takes n bytes of device memory, aligned to 256. It holds whatever was
// there before. Too little memory is ErrBudget, with the numbers.
func (d *Device) Alloc(n int64) (Ptr, error) { return d.take(deviceMemory, n) }

// Free gives back what Alloc gave. It waits until the device is idle.
func (d *Device) Free(p Ptr) error { return d.giveBack(deviceMemory, p) }

// AllocHost takes n bytes of pinned host memory, at the same address for all
// devices. It lies outside Go's heap: the slice is invalid after FreeHost or Close.
func (d *Device) AllocHost(n int64) ([]byte, error) {
	p, err := d.take(pinnedMemory, n)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n), nil
}

// FreeHost gives back what AllocHost gave; the slice must begin where that one did.
func (d *Device) FreeHost(mem []byte) error { return d.giveBack(pinnedMemory, Address(mem)) }

func (d *Device) take(kind regionKind, n int64) (Ptr, error) {
	if n <= 0 {
		return 0, nd.Errorf(nd.ErrBug, "an allocation of %d bytes", n)
	}
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.life.leave()
	which := opAlloc
	if kind == pinnedMemory {
		which = opAllocHost
	}
	w := words{uint64(n)}
	if code := d.driver.lib.call(d.context, which, &w, nil); code != codeSuccess {
		return 0, d.fail(code, d.askedFor(kind, n))
	}
	d.note(Ptr(w[0]), region{kind, n})
	return Ptr(w[0]), nil
}

// askedFor says what was asked for and, of device memory, what there is.
func (d *Device) askedFor(kind regionKind, n int64) string {
	var w words
	if kind == deviceMemory && d.driver.lib.call(d.context, opMemInfo, &w, nil) == codeSuccess {
		return fmt.Sprintf("%d bytes of %s asked for, %d of %d are free", n, kind, w[0], w[1])
	}
	return fmt.Sprintf("%d bytes of %s asked for", n, kind)
}

// Register pins host memory in place, so that copies from and to it are direct.
// mem is mapped memory (a file, say), never Go's heap; its start and end should
// be on page boundaries. readOnly is needed for mappings that the process may
// not write, where Info.ReadOnlyRegister says that it works. Every page is
// brought in, on the calling thread.
func (d *Device) Register(mem []byte, readOnly bool) error {
	if len(mem) == 0 {
		return nd.Errorf(nd.ErrBug, "registering no memory")
	}
	if readOnly && !d.info.ReadOnlyRegister {
		return nd.Errorf(nd.ErrUnsupported, "GPU %d cannot pin read-only mappings", d.info.Ordinal)
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.life.leave()
	w := words{uint64(Address(mem)), uint64(len(mem))}
	if readOnly {
		w[2] = 1
	}
	if err := d.call(opRegister, &w, nil, fmt.Sprintf("pinning %d bytes in place", len(mem))); err != nil {
		return err
	}
	d.note(Address(mem), region{registeredMemory, int64(len(mem))})
	return nil
}

// Unregister ends a Register; it comes before the memory is unmapped. The slice
// must begin where that one did.
func (d *Device) Unregister(mem []byte) error { return d.giveBack(registeredMemory, Address(mem)) }

func (d *Device) note(p Ptr, r region) {
	d.mu.Lock()
	d.mu.memory[p] = r
	d.mu.Unlock()
}

// forget takes memory off the list: whoever gets true gives it back.
func (d *Device) forget(kind regionKind, p Ptr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.mu.memory[p]
	if !ok || r.kind != kind {
		return false
	}
	delete(d.mu.memory, p)
	return true
}

func (d *Device) giveBack(kind regionKind, p Ptr) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.life.leave()
	if !d.forget(kind, p) {
		return nd.Errorf(nd.ErrBug, "%#x is no %s of GPU %d (freed twice?)", uint64(p), kind, d.info.Ordinal)
	}
	w := words{uint64(p)}
	return d.call(kind.free(), &w, nil, "freeing "+kind.String())
}
