package pipeline

import (
	"time"

	"github.com/headrace/headrace/cuda"
)

// clock adds up the time of the device during which the chunks of one wave or more are
// being decoded: time in which several waves are counts once. It begins when a wave's bytes
// are there and ends when its chunks are decoded, whatever else the device does meanwhile.
// It belongs to the settler.
type clock struct {
	latest *cuda.Event // the latest end of a wave's decoding so far; until then, a spare
	begun  bool
}

// add gives what the wave of a stage adds. The stage gets another event in exchange where
// the clock keeps that of the wave, since the next wave records it anew. Without an answer
// from the driver the wave adds nothing.
func (k *clock) add(s *stage) time.Duration {
	took, err := s.ended.Since(s.began)
	if err != nil {
		return 0
	}
	if k.begun {
		more, err := s.ended.Since(k.latest)
		if err != nil || more <= 0 {
			return 0
		}
		took = min(took, more)
	}
	k.latest, s.ended = s.ended, k.latest
	k.begun = true
	return took
}
