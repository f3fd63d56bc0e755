package pipeline

import (
	"testing"
)

// Discard keeps the caches: stored bytes that a wave was about to use stay.
func TestRetiringAFormedWaveKeepsStoredBytes(t *testing.T) {
	counts := &counters{}
	c := newCompressed(1<<20, counts)
	o := &object{version: 1}
	key := chunkKey{0, 1}
	p := c.admit(key, o, 100)
	c.unpin(p, true) // a wave has brought it
	if c.find(key, o, 100) != p {
		t.Fatal("not kept")
	}
	// scheduler.discard retires the formed wave, whose chunk has no route yet.
	w := &wave{chunks: []waveChunk{{source: fromCompressed, stays: p, firstJob: -1}}}
	s := &scheduler{compressed: c}
	s.retire(w)
	if c.find(key, o, 100) == nil {
		t.Error("good bytes are dropped since the wave that would have used them was discarded")
	}
}
