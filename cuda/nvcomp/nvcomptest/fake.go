// Package nvcomptest is an nvCOMP for tests on machines that have none: a fake of
// its library, built from the C++ source in fake/, on the memory of cudatest's fake
// driver. It decodes zstd frames of raw and RLE blocks alone. It is used by tests
// alone; nothing of it is part of headrace, and nothing of nvCOMP is in it.
package nvcomptest

import (
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// Form is a set of entries that a library of some version has.
type Form struct {
	Major        int  // 4, 5 or 6: whose entries
	Version      int  // what it says of itself, 5200 is 5.2.0
	NoAlignments bool // it lacks the query for alignments
}

// Five and Six are the forms that headrace takes.
var (
	Five = Form{Major: 5, Version: 5200}
	Six  = Form{Major: 6, Version: 6000}
)

// Fake is one loaded copy of the fake library.
type Fake struct {
	Path string // for nvcomp.Open
	lib  cudatest.Control
}

// New builds and loads a copy of the fake library on a fake driver. The test is
// skipped where there is no C++ compiler, and in builds without cgo. If it fails,
// its log ends with what the library complained of.
func New(t testing.TB, form Form, driver *cudatest.Fake) *Fake {
	t.Helper()
	path := Library(t, form)
	f := &Fake{Path: path, lib: cudatest.Load(t, path, "hr_fake_nvcomp")}
	f.lib.Call("driver", driver.Path, 0, 0)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, line := range f.Complaints() {
			t.Log("fake nvCOMP: " + line)
		}
	})
	return f
}

// The entries, for Fail and Calls.
const (
	Alignments = "Alignments"
	TempSize   = "TempSize"
	Decompress = "Decompress"
)

// Fail makes every call of an entry return a status; 0 ends it.
func (f *Fake) Fail(entry string, status int) { f.lib.Call("fail", entry, status, 0) }

// Break gives one chunk of every batch a status, and does not decode it; chunk -1
// ends it.
func (f *Fake) Break(chunk, status int) { f.lib.Call("break", "", chunk, status) }

// Calls says how often an entry was called.
func (f *Fake) Calls(entry string) int { return f.lib.Call("calls", entry, 0, 0) }

// Argument is an argument of the latest call, counted from 0. For Decompress they
// are the entry's own in its order, without the options; for TempSize the chunks,
// the largest, the total and the stream.
func (f *Fake) Argument(i int) int { return f.lib.Call("argument", "", i, 0) }

// Together says whether two calls ever ran at the same time.
func (f *Fake) Together() bool { return f.lib.Call("together", "", 0, 0) != 0 }

// Complaints are the library's reasons for what it refused without being asked to
// by a switch: a test of correct code wants none.
func (f *Fake) Complaints() []string { return f.lib.Complaints() }
