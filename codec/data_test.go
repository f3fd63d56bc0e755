package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// noise is n bytes that no codec can compress.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// noisyU16 is n bytes of u16 as a light microscope gives them: smooth blobs over
// a background of 100, with shot noise.
func noisyU16(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 0, n+1)
	for i := 0; len(b) < n; i++ {
		y, x := float64(i/64%64), float64(i%64)
		mean := 100 + 400*math.Exp(-((y-30)*(y-30)+(x-20)*(x-20))/300)
		b = binary.LittleEndian.AppendUint16(b, uint16(mean+0.6*math.Sqrt(mean)*r.NormFloat64()))
	}
	return b[:n]
}

// dataSet makes the data set that testdata/gen.py calls by the same name.
func dataSet(t testing.TB, spec string) []byte {
	t.Helper()
	var kind string
	var n, size int
	if _, err := fmt.Sscanf(spec, "%s %d %d", &kind, &n, &size); err != nil {
		t.Fatalf("data set %q: %v", spec, err)
	}
	b, state := make([]byte, n), uint64(1)
	for i := range b {
		state = state*6364136223846793005 + 1442695040888963407
		ramp := byte(uint64(i/size*7) >> (8 * (i % size)))
		switch {
		case kind == "steps":
			b[i] = byte(i / 50)
		case kind == "noise" || kind == "mixed" && i%size%2 == 0:
			b[i] = byte(state >> 56)
		default:
			b[i] = ramp
		}
	}
	return b
}
