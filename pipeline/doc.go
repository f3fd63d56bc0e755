// Package pipeline is the engine: it turns samples (boxes of zarr arrays) into
// batches of tensors.
//
//	Push            samples wait in the inbox, at most Lookahead and two batches
//	  |
//	plan            which chunks a sample needs, which part of each goes where
//	  |             (plan.go, pure)
//	locate          shard indexes and object sizes, cached        (locate.go)
//	  |
//	wave            the head of the look-ahead window, cut by bytes; a chunk that
//	  |             is decoded already, or in the wave already, is not read again
//	  |             (scheduler.go, table.go)
//	read            coalesced ranges into the ring of slabs       (read.go)
//	  |
//	decode          codec chain of the array, its recipe          (recipe.go)
//	  |
//	assemble        crop, flip, permute, pad, convert into a slot (assemble.go)
//	  |
//	batch           published in the order of Push                (publish.go)
//	  |
//	Next, Release   the slot is free again with the last Release  (batch.go)
//
// # Who does what
//
// One goroutine, the scheduler, owns the window, the caches and the batches in
// the making. It plans and decides, and never waits for anything but mail. A fixed
// number of readers fetch bytes. A backend executes waves: decode these chunks,
// place these parts. The host backend does it with a fixed number of workers; a
// device backend enqueues the same waves on streams. Planning, reading, budgets,
// order and errors exist once, above that seam (wave.go).
//
// Pipeline.start starts all goroutines, scheduler.stop ends them.
//
// # Memory
//
// Everything large is taken at Open, outside the Go heap: the slots, the ring of
// slabs and the arena of decoded chunks. Open fails with nd.ErrBudget and the
// numbers when HostBytes is too little. Offsets in the ring and in the arena are
// handed out by the scheduler alone (arena.go), so a wave carries plain numbers
// and a backend may keep its arena anywhere.
//
// # Order and errors
//
// Waves may end in any order; batches are published in the order they went in.
// An error rides on its sample: a chunk that cannot be read or decoded fails the
// samples that need it and nothing else. What Next then gives is the Policy's to
// say. Only a bug of ours ends the pipeline.
//
// # Locks
//
// inbox.mu, outlet.mu, tasks.mu, slots.mu, slot.mu and host.mu each guard their
// own struct. No two are ever held together, and none while calling out, save that
// slot.mu is held while waiting for the events of the slot's last consumers, and
// that a device hands tasks to its workers' queue under device.mu.
package pipeline
