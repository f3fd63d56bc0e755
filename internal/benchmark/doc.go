// Package benchmark runs a scenario and measures it.
//
//	Open -> warm-up batches -> timed batches -> peak memory
//	     -> bare decoder over the same chunks (what the codec alone can do)
//	     -> check: the same batches again, each byte against plainread
//
// The crops are damacy's sequence (package scenario), the wall time begins with
// an empty pipeline and warm metadata, as damacy's does. Rates in GB/s count the
// bytes of the batches; compare samples/s where output types differ.
package benchmark
