package pipeline

// backend executes waves and owns the memory that they work in. It reports each
// wave back once, from any goroutine, by inbox.putDone.
type backend interface {
	place
	// divide shares the bytes of the config out, after the fields are laid out: it
	// sets p.limits and p.capacity.
	divide() error
	// take takes all memory: the slots, the ring that the readers fill, and what the
	// backend itself needs. free gives it back, save for slots that are still held.
	take() error
	free() error
	// mappings asks readers to map files by request; nil where nothing is mapped.
	mappings(request func(*mapping)) *mappings
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

// place is what can be done with a batch where the backend has left it, also after
// the pipeline has closed.
type place interface {
	// ordinal is the GPU that batches lie on; false on the host.
	ordinal() (int, bool)
	// copyOut copies what lies at an offset of the slot to the host and waits.
	copyOut(dst []byte, s *slot, offset int) error
	// mark gives the event that a stream of a consumer has come to this point, nil
	// where there are no streams.
	mark(stream uintptr) (Event, error)
	// drain waits for all work of this process on batches' device.
	drain() error
	// export lets other processes see the slot; false where that goes without it.
	export(s *slot) (Exported, bool, error)
}

// capacity is what a backend wants of its waves.
type capacity struct {
	waves    int   // in flight
	decoded  int64 // bytes a wave should have
	cached   int64 // bytes that are decoded already count as so many times less
	encoded  int64 // bytes that it has stored at most, wherever these come from
	stored   int64 // encoded bytes that a device has room for
	unpacked int64 // of these by the host, for a device
	chunks   int   // a wave of tiny chunks has at most so many
	batches  int   // a wave writes into at most so many
	decoders decoders
}

// newBackend opens what the config asks for.
func newBackend(p *Pipeline) (backend, error) {
	if p.cfg.Device.gpu() {
		return openDevice(p)
	}
	return newHost(p), nil
}
