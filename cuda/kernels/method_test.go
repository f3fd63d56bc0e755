package kernels

import "testing"

// Each method but Host has a family, and what goes by way of a second buffer is what
// Chunk says of its Scratch.
func TestMethods(t *testing.T) {
	for method := Host + 1; method <= BloscZlib; method++ {
		if FamilyOf(method) == Families {
			t.Errorf("no kernel decodes method %d", method)
		}
		blosc := method == Blosc || method == BloscZstd || method == BloscZlib
		if NeedsScratch(method, 1) != blosc || NeedsScratch(method, 2) != (method != Unshuffle) {
			t.Errorf("method %d: a second buffer for elements of 1 and 2 bytes: %v, %v", method, NeedsScratch(method, 1), NeedsScratch(method, 2))
		}
	}
	for _, method := range []uint8{Host, BloscZlib + 1, 255} {
		if FamilyOf(method) != Families {
			t.Errorf("method %d has a family", method)
		}
	}
}
