package pipeline

import (
	"math"

	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/zarr"
)

// packing is how the chunks of a recipe are stored, in the words of a device's kernels.
type packing struct {
	method   uint8  // kernels.Copy, LZ4, ..., or Host
	typesize uint8  // of elements whose bytes were put apart
	flags    uint16 // of kernels.Chunk
	sum      int64  // bytes of the checksum behind the encoded ones
}

// pack finds the kernels' words for the stages of a recipe, which are in the order of
// decoding.
func pack(stages []zarr.Codec, verify bool) packing {
	list := make([]decode.Stage, len(stages))
	for i, s := range stages {
		list[i] = decode.Stage(s)
	}
	c := decode.CodingOf(list)
	if c.Method == kernels.Host {
		return packing{}
	}
	p := packing{method: c.Method, typesize: c.Typesize}
	if c.Summed {
		p.sum = decode.SumBytes
	}
	switch {
	case !verify:
		p.flags = kernels.Unchecked
	case c.Summed:
		p.flags = kernels.Summed
	}
	return p
}

func (p packing) family() kernels.Family { return kernels.FamilyOf(p.method) }

// shuffled chunks are decoded by way of a second buffer.
func (p packing) shuffled() bool { return kernels.NeedsScratch(p.method, p.typesize) }

// frames are zstd and nothing else.
func (p packing) frames() bool { return p.method == kernels.Zstd && p.typesize < 2 && p.sum == 0 }

// longest is the most stored bytes of a chunk that a device decodes to size bytes. No
// encoder makes more of what does not compress; but empty blocks are well formed, however
// many, and would keep a thread of the device for a long time. What is longer still nobody
// reads, see CheckStored.
func longest(size int64) int64 { return min(size+size/4+1024, math.MaxInt32) }

// decoders is who there is on a device to decode chunks. Kernels that need memory have it
// for the arrays of Open alone.
type decoders struct {
	zstd    bool // there is memory for zstd to work in,
	scratch bool // and a second buffer for what is shuffled
	library bool // zstd frames are a library's
}

// need adds what the chunks of a recipe take.
func (d *decoders) need(p packing) {
	if d.library && p.frames() {
		return
	}
	d.zstd = d.zstd || p.family() == kernels.ZstdFamily
	d.scratch = d.scratch || p.shuffled()
}

// of says who decodes a chunk of the recipe, of so many stored bytes: byKernel,
// byLibrary or, for the host, byWorker.
func (d *decoders) of(r *recipe, length int64) decoder {
	p := r.packing
	f := p.family()
	switch {
	case f == kernels.Families || length < p.sum || length > longest(r.size):
		return byWorker
	case d.library && p.frames():
		return byLibrary
	case f == kernels.ZstdFamily && !d.zstd || p.shuffled() && !d.scratch:
		return byWorker
	}
	return byKernel
}
