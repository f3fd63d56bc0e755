package cudatest

import (
	"testing"
)

// Fake is one loaded copy of the fake driver.
type Fake struct {
	Path string // for cuda.Load
	lib  Control
}

// New loads a copy of the fake driver: two devices of 16 GiB, version 13.0. If the
// test fails, its log ends with what the driver complained of.
func New(t testing.TB) *Fake {
	t.Helper()
	path := Library(t)
	f := &Fake{Path: path, lib: Load(t, path, "hr_fake")}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, line := range f.Complaints() {
			t.Log("fake driver: " + line)
		}
	})
	return f
}

// Version sets the driver's version: 12080 is 12.8. It decides which form of the
// batched copy there is, and which PTX is too new. For use before Load.
func (f *Fake) Version(v int) { f.set("version", v) }

// Devices sets how many devices there are, at most 16. For use before Load.
func (f *Fake) Devices(n int) { f.set("devices", n) }

// Instance makes a device an instance of a divided GPU (MIG) with that profile, as
// "1g.5gb".
func (f *Fake) Instance(device int, profile string) { f.lib.Call("instance", profile, device, 0) }

// Memory sets the bytes of each device; an allocation beyond is out of memory.
func (f *Fake) Memory(n int64) { f.set("memory", int(n)) }

// ReadOnlyRegister says whether read-only mappings can be registered; they can.
func (f *Fake) ReadOnlyRegister(on bool) { f.set("read-only", number(on)) }

// Lazy puts work off until somebody waits for it, and does it in the order that
// the waits, not the calls, ask for. It finds a wait that is missing.
func (f *Fake) Lazy(on bool) { f.set("lazy", number(on)) }

// Hide makes the driver lack an entry. For use before Load.
func (f *Fake) Hide(entry string) { f.lib.Call("hide", entry, 0, 0) }

// Fail makes the nth call of an entry from now on return a status, the first for 1;
// 0 is every call. The entry's name has no _v2. Status 0 ends it.
func (f *Fake) Fail(entry string, nth, status int) { f.lib.Call("fail", entry, nth, status) }

// Lose makes the context of a device lost, with the status that every call of it
// returns from now on.
func (f *Fake) Lose(device, status int) { f.lib.Call("lose", "", device, status) }

// Calls says how often an entry was called.
func (f *Fake) Calls(entry string) int { return f.lib.Call("calls", entry, 0, 0) }

// Uploading says on how many of the streams that there are something was to be copied to
// a device. One engine does all of that: on another stream, a copy waits for what is in
// front of it on all of them.
func (f *Fake) Uploading() int { return f.lib.Call("live", "uploading", 0, 0) }

// Live says what the driver holds and nobody has given back yet.
func (f *Fake) Live() Live {
	get := func(what string) int { return f.lib.Call("live", what, 0, 0) }
	return Live{
		Contexts: get("contexts"), Device: get("device"), Bytes: int64(get("bytes")), Pinned: get("pinned"),
		Registered: get("registered"), Imported: get("imported"), Streams: get("streams"), Events: get("events"), Modules: get("modules"),
	}
}

// Live counts what is held.
type Live struct {
	Contexts   int   // holds on primary contexts
	Device     int   // allocations on devices
	Bytes      int64 // of those
	Pinned     int   // allocations of pinned host memory
	Registered int   // registered ranges of host memory
	Imported   int   // allocations of other processes
	Streams    int
	Events     int
	Modules    int
}

// Push makes the context of a device current for the calling thread, as a caller
// with a context of its own has it. The test locks its goroutine to the thread.
func (f *Fake) Push(device int) { f.lib.Call("push", "", device, 0) }

// Depth says how many contexts the calling thread has pushed and not popped.
func (f *Fake) Depth() int { return f.lib.Call("depth", "", 0, 0) }

// Complaints are the driver's reasons for what it refused without being asked to
// by a switch: a test of correct code wants none.
func (f *Fake) Complaints() []string { return f.lib.Complaints() }

func (f *Fake) set(what string, value int) { f.lib.Call(what, "", value, 0) }

func number(on bool) int {
	if on {
		return 1
	}
	return 0
}
