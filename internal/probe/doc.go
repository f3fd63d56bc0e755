// Package probe predicts what decoding an array costs, from a sample of its chunks, and
// tries other codecs on them.
//
//	draw -> check -> structure            what the chunks hold           sample.go, structure.go
//	     -> host, readAgain, gpu          what this machine does         host.go, gpu.go
//	     -> Model                         what a measured GPU would do   model.go, rates.json
//	     -> Crop -> stages -> table -> Advice
//
// Nothing is written, and what is held is bounded: 128 MiB of stored chunks, or one
// that is larger; 512 MiB of decoded ones, or one of at most 1 GiB; and 32 MiB that are encoded again.
// Calls on a GPU have a time together, Options.GPUTime. Chunks that cannot be decoded count in no figure, and
// it is an error if none can. The sample follows
// from the seed and the array's grid.
//
// Each figure says whether it was measured in this run or predicted. Predictions come
// from rates.json: calls of the kernels on one GPU as files in bench/results keep
// them, with what is inside the data that they decoded. The model that is fitted to it
// has three parts a family of kernels, which is milliseconds a GB = base + a part for
// each sequence a KiB + a part for literals behind Huffman codes, and a curve of how
// full the GPU is with so many chunks in flight. A test holds it against every
// measured call. To replace the rates: see ratesgen.
package probe
