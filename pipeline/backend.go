package pipeline

// backend executes waves and owns the memory that they work in. It reports each
// wave back once, from any goroutine, by inbox.putDone.
type backend interface {
	// divide shares the bytes of the config out, after the fields are laid out: it
	// sets p.limits and p.capacity.
	divide() error
	// take takes all memory: the slots, the ring that the readers fill, and what the
	// backend itself needs. free gives it back, save for slots that are still held.
	take() error
	free() error
	// start starts the backend's goroutines.
	start()
	// look takes a look at bytes that a reader has just brought, on its goroutine.
	look(*wave, *read)
	// submit takes a wave whose bytes are all in place. Waves come in the order in
	// which they were planned. It does not block.
	submit(*wave)
	// close stops the backend's goroutines after the waves in hand are done.
	close()
}

// capacity is what a backend wants of its waves.
type capacity struct {
	waves    int   // in flight
	decoded  int64 // bytes a wave should have
	cached   int64 // bytes that are decoded already count as so many times less
	stored   int64 // encoded bytes that a device has room for
	unpacked int64 // of these by the host, for a device
	frames   bool  // a device decodes zstd
	chunks   int   // a wave of tiny chunks has at most so many
}

// newBackend opens what the config asks for.
func newBackend(p *Pipeline) (backend, error) {
	if p.cfg.Device.gpu() {
		return openDevice(p)
	}
	return newHost(p), nil
}
