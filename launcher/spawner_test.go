package launcher

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Work that comes after the end, such as the restart of an engine whose job is over,
// is dropped: the eventfd's number may be another file's by then.
func TestSpawnerIsDeafAfterClose(t *testing.T) {
	s, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	s.now(func() {})
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(newEventfd(t), s.wake, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s.wake) //nolint:errcheck // of the test
	s.later(func() { t.Error("work was done after the end") })
	var count [8]byte
	if _, err := unix.Read(s.wake, count[:]); err != unix.EAGAIN {
		t.Errorf("a closed spawner rang another's descriptor: %v, %v", count, err)
	}
}

func newEventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}
