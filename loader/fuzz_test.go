package loader

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// A state with any position is refused as a bad config, or a loader that goes there
// writes the same state again. A batch that was left in its middle is no exception.
func FuzzState(f *testing.F) {
	f.Add(int64(95), int64(10), int64(20), uint8(0))
	f.Add(int64(95), int64(10), int64(95), uint8(1))
	f.Add(int64(95), int64(10), int64(7), uint8(2))
	f.Add(int64(0), int64(1)<<62, int64(0), uint8(0))
	f.Fuzz(func(t *testing.T, n, global, next int64, tail uint8) {
		stream := sampler.Stream{N: n, Global: global, Fingerprint: "ab", Tail: sampler.Tail(tail % 3)}
		if stream.Validate() != nil {
			return
		}
		s := stream.State(2, 0)
		s.NextPosition = next
		var l Loader
		at, err := s.Check(stream, false)
		if err != nil {
			if !errors.Is(err, nd.ErrConfig) {
				t.Errorf("kind of %v", err)
			}
			return
		}
		l.mu.at = at
		back := l.State()
		// With TailDrop the place after the last batch and the end are the same.
		if stream.Tail == sampler.TailDrop && at.Step == stream.Steps() {
			back.NextPosition = next
		}
		if back != s {
			a, _ := json.Marshal(s)
			b, _ := json.Marshal(back)
			t.Errorf("state %s comes back as %s", a, b)
		}
	})
}
