// Package dataset writes zarr arrays of made-up values, for benchmarks, demos and
// tests.
//
//	Array (shape, dtype, codecs, field, seed) -> Write -> files
//	  field: seed, coordinate -> value      random.go, noise.go, field*.go
//	  chunk: values -> encoded bytes        chunk.go
//	  object: chunks -> file                object.go
//
// The value of an element is a pure function of the array's seed and of the
// element's coordinate. So any chunk can be made alone, on any core, in any
// order, and an interrupted run goes on where it stopped. The values are the
// same on every machine: integer hashes and plain float64 arithmetic without
// fused multiply-add. The files are the same wherever the encoder is.
//
// The fields:
//
//	mask50    full-range noise of which a share (the entropy, 0.5) is kept and the
//	          rest is 0; normal numbers for floating types. damacy's recipe
//	lm        light microscopy: background, 40 soft blobs, shot noise
//	em        electron microscopy: soft grey, dark membranes, fine grain
//	weather   smooth in all axes, with a latitude trend, rounded like packed data
//	labels    segmentation: large areas of one label, a quarter is background
//	constant  the value 7 everywhere
package dataset
