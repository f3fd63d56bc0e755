package cuda_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/headrace/headrace/cuda"
)

var peerFlag = flag.String("cuda.peer", "", "handles of memory and event: this process is the importer of TestIPC")

// Two processes share memory and an event: the second waits for the event, sees
// the bytes of the first and changes them.
func TestIPC(t *testing.T) {
	if *peerFlag != "" {
		peer(t)
		return
	}
	r := open(t)
	p := r.alloc(mib)
	shared := must(r.NewEvent(true))(t)
	var c cuda.Commands
	c.Set(r.stream, p, 1, mib)
	c.Record(r.stream, shared)
	ok(t, r.Run(&c))
	memory, event := must(r.ExportMemory(p))(t), must(r.ExportEvent(shared))(t)
	path := *driverFlag
	if r.fake != nil {
		path = r.fake.Path
	}
	child := exec.Command(os.Args[0], "-test.run=^TestIPC$", "-cuda.driver="+path, "-cuda.peer="+hex.EncodeToString(append(memory[:], event[:]...)))
	if said, err := child.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, said)
	}
	if got := r.read(p, mib); !bytes.Equal(got, bytes.Repeat([]byte{2}, mib)) {
		t.Error("the other process's bytes are not there")
	}
	r.quiet()
}

func peer(t *testing.T) {
	r := open(t)
	handles := must(hex.DecodeString(*peerFlag))(t)
	p := must(r.ImportMemory(cuda.IPCHandle(handles[:64])))(t)
	event := must(r.ImportEvent(cuda.IPCHandle(handles[64:])))(t)
	var c cuda.Commands
	c.Await(r.stream, event)
	r.finish(&c)
	if got := r.read(p, mib); !bytes.Equal(got, bytes.Repeat([]byte{1}, mib)) {
		t.Error("the bytes of the first process are not there")
	}
	c.Set(r.stream, p, 2, mib)
	r.finish(&c)
	ok(t, event.Close())
	ok(t, r.CloseMemory(p))
	oneLine(t, r.CloseMemory(p), bug)
}

// The fake driver keeps nothing of memory that was exported: tests count what an engine
// has open.
func TestExportIsForgotten(t *testing.T) {
	r := open(t)
	if r.fake == nil {
		t.Skip("a GPU's driver has files of its own")
	}
	files := func() int { return len(must(os.ReadDir("/proc/self/fd"))(t)) }
	p := must(r.Alloc(kib))(t)
	before := files()
	must(r.ExportMemory(p))(t)
	ok(t, r.Free(p))
	if after := files(); after != before {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

// Only the start of an own allocation and an interprocess event can be exported.
func TestIPCMisuse(t *testing.T) {
	r := open(t)
	_, err := r.ExportMemory(r.alloc(kib) + 256)
	oneLine(t, err, bug)
	_, err = r.ExportEvent(r.event)
	oneLine(t, err, bug)
}
