package decode

import (
	"encoding/json"
	"math"

	"github.com/headrace/headrace/cuda/kernels"
)

// A Stage is a codec as the metadata of an array name it.
type Stage struct {
	Name   string
	Config json.RawMessage
}

// Coding is how an array's chunks are stored, in the words of Chunk.
type Coding struct {
	Method   uint8 // kernels.Copy, LZ4, ..., or Host
	Typesize uint8 // of elements whose bytes were put apart
	Summed   bool  // SumBytes follow the bytes; it is told of the host's too
}

// SumBytes is the length of a CRC-32C.
const SumBytes = 4

// CodingOf finds the kernels' words for stages in the order of decoding: perhaps a checksum, a
// codec, perhaps numcodecs' shuffle. Other chains are the host's.
func CodingOf(stages []Stage) (c Coding) {
	if len(stages) > 0 && isSum(stages[0]) {
		stages, c.Summed = stages[1:], true
	}
	host := Coding{Summed: c.Summed}
	if n := len(stages) - 1; n > 0 && stages[n].Name == "shuffle" {
		c.Typesize = shuffledBy(stages[n])
		if stages = stages[:n]; c.Typesize == 0 || stages[0].Name == "blosc" || stages[0].Name == "shuffle" {
			return host
		}
	}
	switch len(stages) {
	case 0:
		c.Method = kernels.Copy
	case 1:
		c.Method = methodOf(stages[0])
	}
	switch c.Method {
	case kernels.Host:
		return host
	case kernels.Unshuffle:
		c.Typesize = shuffledBy(stages[0])
	}
	return c
}

// isSum reports whether the stage is a CRC-32C behind the bytes.
func isSum(stage Stage) bool {
	settings := struct{ Location string }{}
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil {
		return false
	}
	return stage.Name == "crc32c" && settings.Location != "start"
}

func methodOf(stage Stage) uint8 {
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
func bloscMethod(stage Stage) uint8 {
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
func shuffledBy(stage Stage) uint8 {
	settings := struct{ Elementsize int }{4} // as package codec has it
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil || settings.Elementsize > math.MaxUint8 {
		return 0
	}
	return uint8(max(settings.Elementsize, 1))
}
