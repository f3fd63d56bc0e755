package pipeline

import (
	"encoding/json"
	"math"

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
// decoding: perhaps a checksum, a codec, perhaps numcodecs' shuffle. Other chains are the
// host's.
func pack(stages []zarr.Codec, verify bool) (p packing) {
	if !verify {
		p.flags = kernels.Unchecked
	}
	if len(stages) > 0 && isSum(stages[0]) {
		if stages, p.sum = stages[1:], sumBytes; verify {
			p.flags = kernels.Summed
		}
	}
	if n := len(stages) - 1; n > 0 && stages[n].Name == "shuffle" {
		p.typesize = shuffledBy(stages[n])
		if stages = stages[:n]; p.typesize == 0 || stages[0].Name == "blosc" || stages[0].Name == "shuffle" {
			return packing{}
		}
	}
	switch len(stages) {
	case 0:
		p.method = kernels.Copy
	case 1:
		p.method = methodOf(stages[0])
	}
	switch p.method {
	case kernels.Host:
		return packing{}
	case kernels.Unshuffle:
		p.typesize = shuffledBy(stages[0])
	}
	return p
}

const sumBytes = 4 // of a CRC-32C

// isSum reports whether the stage is a CRC-32C behind the bytes.
func isSum(stage zarr.Codec) bool {
	settings := struct{ Location string }{}
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil {
		return false
	}
	return stage.Name == "crc32c" && settings.Location != "start"
}

func methodOf(stage zarr.Codec) uint8 {
	switch stage.Name {
	case "lz4":
		return kernels.LZ4
	case "zstd":
		return kernels.Zstd
	case "zlib":
		return kernels.Zlib
	case "gzip":
		return kernels.Gzip
	case "blosc":
		return bloscMethod(stage)
	case "shuffle":
		if shuffledBy(stage) > 0 {
			return kernels.Unshuffle
		}
	}
	return kernels.Host
}

// bloscMethod goes by what the array's writer was told. A frame that was made otherwise
// comes back from the kernels, and is the host's.
func bloscMethod(stage zarr.Codec) uint8 {
	settings := struct{ Cname string }{"lz4"} // as package codec has it
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil {
		return kernels.Host
	}
	switch settings.Cname {
	case "lz4", "lz4hc", "blosclz":
		return kernels.Blosc
	case "zstd":
		return kernels.BloscZstd
	case "zlib":
		return kernels.BloscZlib
	}
	return kernels.Host
}

// shuffledBy is the size of the elements of a shuffle, 0 for one that kernels do not know.
func shuffledBy(stage zarr.Codec) uint8 {
	settings := struct{ Elementsize int }{4} // as package codec has it
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil || settings.Elementsize > math.MaxUint8 {
		return 0
	}
	return uint8(max(settings.Elementsize, 1))
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
