// Package cuda holds the GPU primitives of headrace: the NVIDIA driver, devices,
// memory, streams, events, kernels. It has no notion of chunks or batches.
//
//	Load -> Driver -> Open -> Device -> Alloc, AllocHost, Register   memory
//	                                 -> NewStream, NewEvent          order
//	                                 -> LoadModule -> Function       kernels
//	                                 -> Run(Commands)                work
//
// The driver, libcuda.so.1, is found at run time: nothing of the CUDA toolkit is
// needed to build, and a machine without a GPU gets an error from Load and
// nothing else. Drivers from CUDA 12.0 on are taken. A build without cgo has the
// same functions, and a Load that fails.
//
// Threads. Everything but a Commands may be used from any goroutine at any time,
// also while another one closes it: the call then returns [nd.ErrClosed]. Close
// waits for the calls in flight. No goroutine is tied to a thread: each call into
// C makes the device's context current, works, and puts back what was current
// before, so a trainer in the same process notices nothing. The context is the
// device's primary one, the one torch, CuPy and JAX use.
//
// Ownership. A Device owns all that was made from it, and its Close frees the
// rest. What the GPU still reads or writes may not be freed or unregistered: the
// caller waits for an event first.
//
// Errors. Out of memory is [nd.ErrBudget] with the numbers; all other failures of
// the driver are [nd.ErrDevice], with a [*DriverError] inside; a call that breaks
// the rules here is [nd.ErrBug]. After an error that the context does not survive
// (an illegal address in a kernel, say) [Device.Broken] is true for good: every
// further call fails, and only closing is left.
package cuda
