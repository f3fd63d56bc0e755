package loader

import "context"

// Fence decides when this rank may have a step, for jobs whose ranks come and go: a
// coordinator's lease. A loader without one returns every step at once, which is
// right where all ranks live and die together.
//
// The loader calls it from Next alone, one call at a time. What a Fence wants done
// again, or done as another rank, it asks of the loader's owner by an error of Lease,
// such as an *agentapi.ViewError; the owner calls Enter.
type Fence interface {
	// Lease waits until the step may be returned. Its error is that of Next, which
	// returned nothing then and asks again at its next call.
	Lease(ctx context.Context, epoch, step int64) error
	// Delivered is told after the step was returned. It must not wait.
	Delivered(epoch, step int64)
}
