// Package loader is the loader of one rank: which batch is mine, in which order,
// from where on.
//
//	rank.Identity ─┐
//	sampler.Source ┼─> Epoch.Part(step) -> PushBatch … pipeline … Next -> batch
//	Config ────────┘                                                  ├> position: State
//	                                                                  └> Report
//
// Every rank makes its own loader from the same source and config. Ranks agree on
// the order by arithmetic (package sampler): step t is the same global batch on all
// of them, and each gets its part of it. That they do agree is checked before the
// first batch, and again after Load, where the identity names an agent: each sends
// its Plan there, and the verdict is the same on all ranks.
//
// An epoch is ceil(N/G) batches on every rank, G being the global batch. The last
// one may be short, on some ranks down to a batch of no samples, so that all
// ranks make the same number of steps; sampler.TailDrop leaves it out, TailMask
// fills all batches up to one shape. After the last batch Next gives io.EOF once, and
// the Next after that begins the next epoch.
//
// Next pushes as many batches ahead as the pipeline's look-ahead has room for, takes
// its own, and pushes again, so that the pipeline has work while the trainer computes.
// At the end of an epoch it goes on with the next one; SetEpoch to another drops what
// was begun. The loader's one goroutine sends its numbers to the agent once a second;
// without an agent there is none. Close ends it.
//
// The position of a loader counts batches that Next has returned, never those
// that are under way. A batch that Next returned an error for (a bad sample under
// pipeline.Raise) counts as returned: the call after it goes on with the next
// batch. The report of an epoch counts the same, and proves by a digest that adds up
// over ranks and over checkpoints that each position came once.
package loader
