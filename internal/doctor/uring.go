package doctor

import (
	"os"
	"strings"

	"github.com/headrace/headrace/store"
)

// uring tells whether files can be read through io_uring, which is optional.
func (s System) uring() Check {
	f := ring{
		built:    store.HasUring,
		kernel:   askKernel(),
		disabled: s.text("proc/sys/kernel/io_uring_disabled"),
	}
	for line := range strings.Lines(s.text("proc/self/status")) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			f.filtered = strings.TrimSpace(mode) == "2"
		}
	}
	if f.built && f.kernel == allowed {
		f.err = openRing()
	}
	return f.check()
}

// openRing makes a ring as a pipeline would, and lets it go.
func openRing() error {
	st, err := store.Open(os.TempDir(), store.Options{Access: store.Uring})
	if err != nil {
		return err
	}
	return st.Close()
}

// answer is what the kernel says when it is asked for a ring.
type answer uint8

const (
	absent  answer = iota // it knows of none
	refused               // to this process
	allowed
)

// ring is what is known of io_uring here.
type ring struct {
	built    bool // the program has the reader
	kernel   answer
	disabled string // kernel.io_uring_disabled, "" before Linux 6.6
	filtered bool   // the process is under a seccomp filter
	err      error  // of the reader, where it could be tried
}

func (f ring) check() Check {
	c := Check{Name: "io_uring", Status: Note}
	switch {
	case f.kernel == absent:
		c.Found = "the kernel has none, or a seccomp filter says so"
		c.Advice = "nothing needs it: --reader direct reads cold files past the page cache too"
	case f.kernel == refused:
		c.Found, c.Advice = f.refusal()
	case f.err != nil:
		c.Found, c.Advice = f.err.Error(), "read with --reader direct: the same bytes"
	case f.built:
		c.Status, c.Found = OK, "works: --reader uring"
		return c
	default:
		c.Found = "the kernel allows it, this program was built without"
		c.Advice = "nothing needs it; for --reader uring build with `make uring`, or -tags uring -ldflags=-checklinkname=0"
		return c
	}
	if !f.built {
		c.Found += "; this program was built without too"
	}
	return c
}

// refusal tells who forbids it and what would change that.
func (f ring) refusal() (found, advice string) {
	switch {
	case f.disabled == "1":
		return "forbidden to this user (kernel.io_uring_disabled is 1)", "for --reader uring put the user's group into kernel.io_uring_group, or set kernel.io_uring_disabled=0"
	case f.disabled == "2":
		return "forbidden to all (kernel.io_uring_disabled is 2)", "for --reader uring set kernel.io_uring_disabled=0"
	case f.filtered:
		return "forbidden by a seccomp filter, as containers have it by default", "for --reader uring run the container with a profile that allows io_uring_setup, io_uring_enter and io_uring_register"
	}
	return "forbidden by a security module", "for --reader uring allow io_uring to this program; see the kernel's log"
}
