package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// Every reader makes the batches that the plain values say, from files on a disk.
func TestReadersMakeTheSameBatches(t *testing.T) {
	seeds := uint64(6) // the first direct read of a new file waits until it is written
	if testing.Short() {
		seeds = 2
	}
	for _, reader := range []string{"ring", "direct", "uring"} {
		t.Run(reader, func(t *testing.T) {
			needReader(t, reader)
			for seed := range seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					runRandomFrom(t, seed, reader, func(a *testArray, _ string) ArrayRef { return ArrayRef{URI: a.onDisk(t)} })
				})
			}
		})
	}
}

// needReader skips where the build or the machine has no such reader, with the
// store's own reason.
func needReader(t *testing.T, reader string) {
	t.Helper()
	access, known := (&Config{Reader: reader}).access()
	if !known {
		t.Fatalf("reader %q is unknown", reader)
	}
	st, err := store.Open(t.TempDir(), store.Options{Access: access})
	if errors.Is(err, nd.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// The readers are offered by name, and one that cannot be had fails Open: it is
// never replaced by another in silence.
func TestReaderIsNamed(t *testing.T) {
	c := newCube(t)
	c.cfg.Reader = "magic"
	err := c.cfg.Validate()
	for _, name := range []string{"ring", "direct", "uring", "mapped"} {
		if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s is not offered: %v", name, err)
		}
	}
	c.cfg.Reader = "mapped"
	if err := c.cfg.Validate(); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("mapped without a GPU: %v", err)
	}
	if st, err := store.Open(t.TempDir(), store.Options{Access: store.Uring}); err == nil {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		return // this build has it
	}
	cfg := c.cfg
	cfg.Reader, cfg.Arrays = "uring", []ArrayRef{{URI: t.TempDir()}}
	if _, err := Open(context.Background(), cfg); !errors.Is(err, nd.ErrUnsupported) || !strings.Contains(err.Error(), "io_uring") {
		t.Errorf("no io_uring: %v", err)
	}
}

// The readers' aligned memory is within HostBytes.
func TestDirectMemoryIsCounted(t *testing.T) {
	c := newCube(t)
	c.cfg.Readers = 7
	plain := mustOpen(t, c.cfg).Stats().HostBytes
	c.cfg.Reader = "direct"
	if got := mustOpen(t, c.cfg).Stats().HostBytes; got != plain+7*store.BlockBytes {
		t.Errorf("%d bytes with direct reads, %d without", got, plain)
	}
}

// On a GPU, files are mapped from the page cache only where no other reader was
// asked for: one that goes past the page cache would find nothing there.
func TestOnlyMappedReadersMap(t *testing.T) {
	for reader, want := range map[string]bool{"": true, "mapped": true, "ring": false, "direct": false} {
		c := newCube(t)
		c.cfg.Reader = reader
		onFake(t, &c.cfg)
		p, err := Open(t.Context(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if got := p.sched.mappings != nil; got != want {
			t.Errorf("reader %q: mapped %v, want %v", reader, got, want)
		}
	}
}
