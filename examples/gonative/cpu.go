package main

import (
	"encoding/binary"
	"math"

	"github.com/headrace/headrace/pipeline"
)

// cpu is the same trainer without a GPU.
type cpu struct{}

func (cpu) close() error { return nil }

func (cpu) take(b *pipeline.Batch) (float64, error) {
	m := mean(b.Tensor("image").Data)
	// From here on the slot belongs to another batch: the data must not be used.
	return m, b.Release(nil)
}

// mean is the mean of little-endian float32 values.
func mean(data []byte) float64 {
	sum, n := 0.0, len(data)/4
	for i := range n {
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return sum / float64(max(n, 1))
}
