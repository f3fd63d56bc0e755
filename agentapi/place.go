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
	// Turn, in lockstep, is another one where the ranks are others, or were set to a step: the
	// ranks of a turn have the same one, and their collectives can be known by it.
	Turn uint64
}

// ErrView is what a ViewError matches.
var ErrView = errors.New("the ranks are others, or went back")

// ViewError says that the view is another one: what was asked for is not this rank's
// any more. To enter the view tells its new place.
type ViewError struct {
	View   uint64
	World  int
	Halted bool // a rank is lost: a redo must say where to go on
	Turn   uint64
	// Back says that the job was set to a step since this rank has entered: there it goes on.
	Back        bool
	Epoch, Step int64
}

func (e *ViewError) Error() string {
	switch {
	case e.Halted:
		return fmt.Sprintf("a rank was lost: view %d has %d ranks; say from which step to go on (redo), and enter it", e.View, e.World)
	case e.Back:
		return fmt.Sprintf("the job went back to step %d of epoch %d in view %d: enter it", e.Step, e.Epoch, e.View)
	}
	return fmt.Sprintf("the ranks are others: view %d has %d; enter it", e.View, e.World)
}

// Unwrap makes errors.Is(err, ErrView) hold.
func (e *ViewError) Unwrap() error { return ErrView }
