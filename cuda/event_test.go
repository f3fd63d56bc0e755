package cuda_test

import (
	"testing"
	"time"

	"github.com/headrace/headrace/cuda"
)

// Timed events tell how much later one was passed than the other, in either order and
// across streams.
func TestTimeBetweenEvents(t *testing.T) {
	r := open(t)
	second := must(r.NewStream(0))(t)
	begin, end := must(r.NewTimedEvent())(t), must(r.NewTimedEvent())(t)
	const n = 64 * mib
	p := r.alloc(n)
	var c cuda.Commands
	c.Record(r.stream, begin)
	for range 4 {
		c.Set(r.stream, p, 1, n)
	}
	c.Record(r.stream, r.event)
	c.Await(second, r.event)
	c.Record(second, end)
	called := time.Now()
	ok(t, r.Run(&c))
	ok(t, end.Wait())
	most := time.Since(called)
	took, back := must(end.Since(begin))(t), must(begin.Since(end))(t)
	if took < 10*time.Microsecond || took > most+10*time.Microsecond || back != -took {
		t.Errorf("%v for writing %d bytes, %v by the other way, %v on the host", took, 4*n, back, most)
	}
	if again := must(end.Since(end))(t); again != 0 {
		t.Errorf("%v from an event to itself", again)
	}
	r.quiet()
}

// Only timed events of one GPU that it has passed have a time between them.
func TestNoTimeBetweenEvents(t *testing.T) {
	r := open(t, needFake)
	timed, late := must(r.NewTimedEvent())(t), must(r.NewTimedEvent())(t)
	elsewhere := must(r.second(0).NewTimedEvent())(t)
	var c cuda.Commands
	c.Record(r.stream, timed)
	r.finish(&c)
	for name, call := range map[string]func() error{
		"untimed":  func() error { _, err := r.event.Since(timed); return err },
		"recorded": func() error { _, err := late.Since(timed); return err },
		"devices":  func() error { _, err := timed.Since(elsewhere); return err },
	} {
		if call() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ok(t, late.Close())
	oneLine(t, func() error { _, err := timed.Since(late); return err }(), closed)
	oneLine(t, func() error { _, err := late.Since(timed); return err }(), closed)
}

// timeOfNothing asks for the time from an event to itself.
func (r *rig) timeOfNothing() error {
	e := must(r.NewTimedEvent())(r.t)
	defer func() { ok(r.t, e.Close()) }()
	var c cuda.Commands
	c.Record(r.stream, e)
	r.finish(&c)
	_, err := e.Since(e)
	return err
}
