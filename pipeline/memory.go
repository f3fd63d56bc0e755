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

// DeviceMemory is a Memory whose owner lends memory of batches on a GPU to other
// processes. Recall is told what is about to be freed, of which Batch.Export may have
// given some, and returns when no other process has it open: CUDA leaves undefined
// what a mapping shows after that. It must not call the pipeline.
type DeviceMemory interface {
	Memory
	Recall(allocations []any)
}

// Exported is what another process needs to see a batch on a GPU.
type Exported struct {
	// Allocation tells the allocation that the batch lies in from all others of the
	// process, also from earlier ones at the same address.
	Allocation any
	Address    uint64 // where it begins
	Bytes      int64
	Handle     [64]byte // for cuIpcOpenMemHandle
	UUID       string   // of the GPU, "GPU-..."
}

// anonymous is memory of this process alone.
type anonymous struct{}

func (anonymous) Alloc(n int64) ([]byte, error) { return allocate(n) }
func (anonymous) Free(mem []byte) error         { return free(mem) }
