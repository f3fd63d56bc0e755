package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// sameVerdict decodes by the decoder of this build and by its twin. Whatever the
// twin reads, both must read, to the same bytes: then every legal frame is read
// alike by builds with and without cgo.
//
// The other way round there is a difference: libzstd does not check that the
// streams of a compressed block end where they should, so that it takes some
// damaged blocks that the twin refuses. A frame checksum tells them, and frames
// without compressed blocks must get one verdict.
func sameVerdict(t *testing.T, ours *zstdDecoder, twin *twinZstd, stream []byte, limit int) {
	t.Helper()
	a, b := make([]byte, limit), make([]byte, limit)
	n, err := decodeFrames(a, stream, ours.decode)
	m, errTwin := decodeFrames(b, stream, twin.decode)
	switch {
	case err != nil && errTwin == nil:
		t.Fatalf("only the twin reads it: %v", err)
	case err == nil && errTwin == nil && !bytes.Equal(a[:n], b[:m]):
		t.Fatalf("the decoders give different bytes, %d and %d, first at %d", n, m, firstDifference(a[:n], b[:m]))
	case err == nil && errTwin != nil && !checkedByBlocksOnly(stream):
		t.Fatalf("the twin does not read it: %v", errTwin)
	}
}

// checkedByBlocksOnly reports whether a stream has a compressed block in a frame
// without checksum.
func checkedByBlocksOnly(stream []byte) bool {
	for len(stream) > 0 {
		f, err := parseZstdFrame(stream)
		if err != nil {
			return false
		}
		if f.compressed > 0 && stream[4]&0x04 == 0 {
			return true
		}
		stream = stream[f.size:]
	}
	return false
}

// Frames with one byte changed, at every place.
func TestZstdTwinsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	ours, twin := newZstdDecoder(), newTwinZstd()
	defer twin.close()
	for _, g := range goldenCases(t, "zstd") {
		if g.Error != "" || len(g.Encoded) > 3000 {
			continue
		}
		for i := range g.Encoded {
			broken := bytes.Clone(g.Encoded)
			broken[i] ^= byte(1 + r.IntN(255))
			sameVerdict(t, ours, twin, broken, len(g.want(t))+100)
		}
	}
}
