package topology_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/headrace/headrace/launcher/topology"
)

// A child that a bound thread starts is bound from its first instruction, and the
// thread has its CPUs back after undo.
func TestApplyReachesChildren(t *testing.T) {
	m, err := topology.Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child := func() string {
		t.Helper()
		out, err := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(strings.TrimPrefix(string(out), "Cpus_allowed_list:"))
	}
	before := child()
	last := topology.CPUs{m.CPUs[len(m.CPUs)-1].ID}
	undo, err := topology.Binding{CPUs: last, Node: 0}.Apply()
	if err != nil {
		t.Fatal(err)
	}
	bound := child()
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if bound != last.String() || child() != before {
		t.Errorf("bound to %s: the child has %s, after undo %s, before %s", last, bound, child(), before)
	}
	if undo, err := (topology.Binding{}).Apply(); err != nil || undo() != nil || child() != before {
		t.Errorf("an empty binding: %v", err)
	}
	if err := (topology.Binding{CPUs: topology.CPUs{60000}}).ApplyTo(0); err == nil {
		t.Error("CPU 60000 is there")
	}
}
