package agentapi

import (
	"errors"
	"fmt"
)

// Place is a rank's place in a job whose ranks come and go, and where it goes on.
type Place struct {
	View        uint64
	Rank, World int
	Epoch, Step int64
}

// ErrView is what a ViewError matches.
var ErrView = errors.New("the ranks are others")

// ViewError says that the view is another one: what was asked for is not this rank's
// any more. To enter the view tells its new place.
type ViewError struct {
	View   uint64
	World  int
	Halted bool // a rank is lost: a redo must say where to go on
}

func (e *ViewError) Error() string {
	if e.Halted {
		return fmt.Sprintf("a rank was lost: view %d has %d ranks; say from which step to go on (redo), and enter it", e.View, e.World)
	}
	return fmt.Sprintf("the ranks are others: view %d has %d; enter it", e.View, e.World)
}

// Unwrap makes errors.Is(err, ErrView) hold.
func (e *ViewError) Unwrap() error { return ErrView }
