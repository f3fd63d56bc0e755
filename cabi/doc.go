// Package main is libheadrace.so: the engine behind a C interface for the Python
// package, built with -buildmode=c-shared.
//
//	Python ── hr_open ──▶ call ── hr_wait ──▶ handle        (may block: a call)
//	       ── hr_push ──▶ room or "again"                   (never blocks)
//	       ── hr_next ──▶ batch + token, or "again"         (blocks for at most timeout_ms)
//	tensor dropped, on any thread ── token ──▶ release pipe ──▶ Batch.Release
//
// The rules of the boundary:
//
//   - Handles, JSON and structs of fixed-width integers cross it, Go pointers never
//     do. The memory of batches is the pipeline's, off the Go heap.
//   - Every function that can fail returns a status and fills an hr_error. A panic
//     in one of them dumps all stacks to stderr once and poisons the library: the
//     call and all later ones fail with kind "bug".
//   - Whatever may take long is a call on its own goroutine (call.go); the caller
//     waits for it in steps of 100 ms, since Python runs signal handlers only
//     between two of them. A call that nobody waits for any more undoes itself.
//   - Go cannot see os.environ: the environment comes as an argument.
//   - No signal handling, no listeners, no logger.
package main
