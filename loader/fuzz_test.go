package loader

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// A state is refused as a bad config, or it names a place that the stream has and
// that gives the same state again.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"format":1,"fingerprint":"ab","seed":3,"epoch":2,"next_position":20,"global":10}`), int64(95), uint8(0))
	f.Add([]byte(`{"format":1,"fingerprint":"ab","epoch":0,"next_position":95,"global":10}`), int64(95), uint8(1))
	f.Add([]byte(`{"format":1,"fingerprint":"ab","next_position":0,"global":9223372036854775807}`), int64(0), uint8(0))
	f.Add([]byte(`{"format":1,"fingerprint":"ab","next_position":7,"global":10}`), int64(95), uint8(0))
	f.Fuzz(func(t *testing.T, doc []byte, n int64, tail uint8) {
		s, err := ParseState(doc)
		if err != nil {
			if !errors.Is(err, nd.ErrConfig) {
				t.Errorf("kind of %v", err)
			}
			return
		}
		var l Loader
		l.mu.stream = sampler.Stream{N: max(0, n), Global: 3, Fingerprint: "ab", Tail: sampler.Tail(tail % 2)}
		stream := l.mu.stream
		step, err := s.apply(&stream)
		if err != nil {
			if !errors.Is(err, nd.ErrConfig) {
				t.Errorf("kind of %v", err)
			}
			return
		}
		if step < 0 || step > stream.Steps() {
			t.Fatalf("%+v: step %d of %d", s, step, stream.Steps())
		}
		l.mu.stream, l.mu.epoch, l.mu.step = stream, s.Epoch, step
		back := l.State()
		// With TailDrop the place after the last batch and the end are the same.
		if stream.Tail == sampler.TailDrop && step == stream.Steps() {
			back.NextPosition = s.NextPosition
		}
		if back != s {
			a, _ := json.Marshal(s)
			b, _ := json.Marshal(back)
			t.Errorf("state %s comes back as %s", a, b)
		}
	})
}
