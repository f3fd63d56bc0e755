package launcher

import (
	"context"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// listener is a group that remembers what it was told.
type listener struct {
	rendezvous.Group
	heard []rendezvous.OutcomeKind
}

func (l *listener) Report(_ context.Context, o rendezvous.Outcome) error {
	l.heard = append(l.heard, o.Kind)
	return nil
}

// The group has heard of outcomes, in their order, before anything else happens: a
// Close that overtook the last of them would tell the others that this node was lost.
func TestReportsComeInOrder(t *testing.T) {
	group := &listener{}
	sh := &shell{spec: &Spec{}, hurry: make(chan struct{})}
	sh.mu.group = group
	want := []rendezvous.OutcomeKind{rendezvous.Failed, rendezvous.Signalled}
	var effects []effect
	for _, kind := range want {
		effects = append(effects, effect{kind: report, outcome: rendezvous.Outcome{Kind: kind}})
	}
	if sh.carry(t.Context(), effects); !slices.Equal(group.heard, want) {
		t.Errorf("the group has heard %v", group.heard)
	}
}

// A console that nobody reads, and that is not closed either, does not keep a job
// from ending that was told to stop.
func TestConsoleThatDoesNotMove(t *testing.T) {
	stuck, console, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close() //nolint:errcheck // of the test
	_ = console.Fd()    // blocks, as a descriptor that is inherited does
	o := &outputs{}
	out, err := o.pipe(&pump{console: &lines{file: console}})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := unix.Dup(int(out))
	if err != nil {
		t.Fatal(err)
	}
	o.begin()
	text := make([]byte, 4096)
	for range 24 { // more than the console holds, with what the pump has and the pipe keeps
		if _, err := unix.Write(worker, text); err != nil {
			t.Fatal(err)
		}
	}
	_ = unix.Close(worker)
	hurry := make(chan struct{})
	close(hurry)
	began := time.Now()
	if err := o.drain(hurry, 10*time.Millisecond); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	go func() { _, _ = stuck.WriteTo(io.Discard) }()
	o.running.Wait()
	_ = console.Close()
}
