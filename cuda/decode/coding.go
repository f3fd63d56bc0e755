package decode

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/cuda/kernels"
)

// A Stage is a codec as the metadata of an array name it: with an id of zarr 2 or a name of zarr 3,
// with "numcodecs." before it or without, and its configuration.
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

// String names the method and what goes with it, for messages.
func (c Coding) String() string {
	name := MethodName(c.Method)
	if c.Typesize > 1 {
		name += fmt.Sprintf(", elements of %d bytes apart", c.Typesize)
	}
	if c.Summed {
		name += ", a CRC-32C behind"
	}
	return name
}

// CodingOf finds the kernels' words for stages in the order of decoding, which is that of the
// metadata turned round: perhaps a checksum, a codec, perhaps numcodecs' shuffle. "bytes" may come
// last if it is little-endian or says nothing; of big-endian arrays leave it out, and swap the bytes
// of what was decoded. So for the chain bytes, gzip of zarr 3
//
//	CodingOf([]Stage{{Name: "gzip"}, {Name: "bytes"}})
//
// has the method kernels.Gzip. Other chains, and those with filters or in the order of encoding,
// are the host's: kernels.Host.
func CodingOf(stages []Stage) (c Coding) {
	if n := len(stages) - 1; n >= 0 && isLittle(stages[n]) {
		stages = stages[:n]
	}
	if len(stages) > 0 && isSum(stages[0]) {
		stages, c.Summed = stages[1:], true
	}
	host := Coding{Summed: c.Summed}
	if n := len(stages) - 1; n > 0 && stages[n].name() == "shuffle" {
		c.Typesize = shuffledBy(stages[n])
		if stages = stages[:n]; c.Typesize == 0 || stages[0].name() == "blosc" || stages[0].name() == "shuffle" {
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

// name is that of zarr 2.
func (s *Stage) name() string { return strings.TrimPrefix(s.Name, "numcodecs.") }

// isLittle reports whether the stage turns elements into little-endian bytes.
func isLittle(stage Stage) bool {
	settings := struct{ Endian string }{"little"}
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil {
		return false
	}
	return stage.Name == "bytes" && settings.Endian == "little"
}

// isSum reports whether the stage is a CRC-32C behind the bytes.
func isSum(stage Stage) bool {
	settings := struct{ Location string }{}
	if stage.Config != nil && json.Unmarshal(stage.Config, &settings) != nil {
		return false
	}
	return stage.name() == "crc32c" && settings.Location != "start"
}

func methodOf(stage Stage) uint8 {
	switch stage.name() {
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
