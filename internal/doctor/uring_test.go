package doctor

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/store"
)

// Whatever keeps io_uring away is named together with what to do, and whether the
// program could use it at all.
func TestUring(t *testing.T) {
	f := func(r ring, status Status, words ...string) {
		t.Helper()
		expect(t, r.check(), status, words...)
	}
	f(ring{built: true, kernel: allowed, disabled: "0"}, OK, "works", "--reader uring")
	f(ring{kernel: allowed}, Note, "built without", "make uring", "-tags uring")
	f(ring{built: true, kernel: allowed, err: errors.New("no READ")}, Note, "no READ", "--reader direct")
	f(ring{built: true, kernel: absent}, Note, "the kernel has none", "--reader direct")
	f(ring{built: true, kernel: refused, disabled: "1"}, Note, "this user", "io_uring_group")
	f(ring{built: true, kernel: refused, disabled: "2", filtered: true}, Note, "to all", "io_uring_disabled=0")
	f(ring{built: true, kernel: refused, disabled: "0", filtered: true}, Note, "seccomp", "io_uring_setup")
	f(ring{kernel: refused, filtered: true}, Note, "seccomp", "built without too")
	f(ring{built: true, kernel: refused}, Note, "security module")
}

// The kernel's answer to a question that makes nothing is that to a real request.
func TestUringHere(t *testing.T) {
	c := System{Root: "/"}.uring()
	if works := openRing() == nil; works != (c.Status == OK) || works && !store.HasUring {
		t.Errorf("%+v, but a ring can be made: %v", c, works)
	}
}
