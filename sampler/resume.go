package sampler

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Resume is where a stream goes on.
type Resume struct {
	// Stream has the seed and the global batch of the state, so that the batches
	// are those that would have come.
	Stream Stream
	Epoch  int64
	// Step is the next to deliver, Stream.Steps() at the end of the epoch: its end is
	// still to be told.
	Step int64
	// Skip is the number of positions at the front of that step's global batch that
	// are delivered already: what is left is Rest. It is 0 for every state that a
	// Stream made, unless drift was accepted.
	Skip int64
}

// Rest is the positions of the next global batch that are still to deliver. All
// later batches are Stream.Span.
func (r Resume) Rest() nd.Span {
	span := r.Stream.Span(r.Step)
	span.Start += r.Skip
	return span
}

// Check finds where a stream goes on after a state. The stream is that of the
// running config; its seed and global batch give way to the state's.
//
// A state of another order is refused as nd.ErrConfig, with every difference by
// name. acceptDrift goes on regardless with the running config: then the rest of
// the epoch is another set of samples than the one that was left. Numbers that are
// impossible are refused in any case.
func (s State) Check(stream Stream, acceptDrift bool) (Resume, error) {
	if wrong := s.impossible(); len(wrong) > 0 {
		return Resume{}, nd.Errorf(nd.ErrConfig, "state: %s", strings.Join(wrong, "; "))
	}
	stream.Seed, stream.Global = s.Seed, s.Global
	if err := stream.Validate(); err != nil {
		return Resume{}, err
	}
	if differ := s.drift(stream); len(differ) > 0 && !acceptDrift {
		return Resume{}, nd.Errorf(nd.ErrConfig, "state: it is of another order of samples: %s; accept the drift (accept_drift in Python) to go on with samples that differ from those that are left", strings.Join(differ, "; "))
	}
	r := Resume{Stream: stream, Epoch: s.Epoch}
	if s.NextPosition >= stream.Delivered().Stop {
		r.Step = stream.Steps()
		return r, nil
	}
	r.Step, r.Skip = s.NextPosition/s.Global, s.NextPosition%s.Global
	return r, nil
}

// impossible lists what no stream could have written.
func (s State) impossible() (wrong []string) {
	if s.Format != stateFormat {
		return []string{fmt.Sprintf("format %d, this version reads %d", s.Format, stateFormat)}
	}
	if s.Epoch < 0 {
		wrong = append(wrong, fmt.Sprintf("epoch %d, must be at least 0", s.Epoch))
	}
	if s.Global < 1 {
		wrong = append(wrong, fmt.Sprintf("global %d, must be at least 1", s.Global))
	}
	if s.NextPosition < 0 || s.NextPosition > s.N {
		wrong = append(wrong, fmt.Sprintf("next_position %d, must be in 0 to n, which is %d", s.NextPosition, s.N))
	}
	return wrong
}

// drift lists the differences between the state's order and the stream's.
func (s State) drift(stream Stream) (differ []string) {
	now := stream.State(s.Epoch, 0)
	note := func(name string, had, has any, hint string) {
		if had != has {
			differ = append(differ, fmt.Sprintf("%s is %v in the state, %v here%s", name, had, has, hint))
		}
	}
	note("fingerprint", s.Fingerprint, now.Fingerprint, " (crops, their parameters or the arrays' metadata differ)")
	note("n", s.N, now.N, "")
	note("shuffle", s.Shuffle, now.Shuffle, "")
	note("tail", s.Tail, now.Tail, "")
	note("block", s.Block, now.Block, "")
	note("window", s.Window, now.Window, "")
	if len(differ) == 0 {
		note("plan", s.Plan, now.Plan, " (storage blocks differ, or the state was edited)")
	}
	return differ
}
