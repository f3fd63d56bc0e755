package pipeline

// Memory gives the memory of batches on the host. Open calls Alloc for each slot;
// Close, or the last Release of a batch that outlives it, calls Free with the same
// slice. Its methods may be called from several goroutines at once and must not
// call the pipeline.
type Memory interface {
	// Alloc gives n bytes off the Go heap. n may be 0.
	Alloc(n int64) ([]byte, error)
	Free(mem []byte) error
}

// anonymous is memory of this process alone.
type anonymous struct{}

func (anonymous) Alloc(n int64) ([]byte, error) { return allocate(n) }
func (anonymous) Free(mem []byte) error         { return free(mem) }
