package cuda

import "github.com/headrace/headrace/nd"

// Lent is what the C side of another library's binding needs to enqueue work on a
// stream: addresses of the driver's cuCtxPushCurrent and cuCtxPopCurrent, and the
// handles to give them and the library.
type Lent struct{ Push, Pop, Context, Stream uintptr }

// Lend calls f with a stream of the device; neither goes away before f returns. f
// pushes the context, works and pops it in one call of C, as this package does,
// since a goroutine may change its thread between two. It returns the driver's
// status of the push and the pop.
func (d *Device) Lend(s *Stream, what string, f func(Lent) int) error {
	if s.device != d {
		return nd.Errorf(nd.ErrBug, "a stream of another GPU lent for GPU %d", d.info.Ordinal)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	push, pop := d.driver.lib.pushPop()
	if code := f(Lent{push, pop, uintptr(d.context), uintptr(s.handle)}); code != codeSuccess {
		return d.fail(code, what)
	}
	return nil
}
