package agentapi

import (
	"errors"
	"fmt"
	"strings"
)

// ErrVoid is what a VoidError matches.
var ErrVoid = errors.New("positions are void")

// VoidError says that positions which this rank has finished do not count for it: another rank
// has them, or has done them. What was made of them here must not be used.
type VoidError struct {
	// Parts are with the reason of each. Of one that is Unknown nobody here can say whether
	// it counts: results that are stored under their epoch and id may come twice.
	Parts []Decided
}

func (e *VoidError) Error() string {
	const most = 8
	var b strings.Builder
	for i, p := range e.Parts {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(e.Parts)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d to %d of epoch %d (%s)", p.Span.Start, p.Span.Stop, p.Epoch, p.Reason)
	}
	return fmt.Sprintf("positions are another rank's now, and what was made of them here does not count: %s", b.String())
}

// Unwrap makes errors.Is(err, ErrVoid) hold.
func (e *VoidError) Unwrap() error { return ErrVoid }

// WaitError is a wait for the job that its context has ended. It says what the job waits for,
// and matches the context's error.
type WaitError struct {
	What   string // was waited for
	Reason string // why nothing came; empty: it is not known
	Err    error  // of the context
}

func (e *WaitError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("%s: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s: %s (%v)", e.What, e.Reason, e.Err)
}

// Unwrap is the context's error.
func (e *WaitError) Unwrap() error { return e.Err }
