package agentapi

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/nd"
)

// JobState is what a rank knows of the job: the newest replaces all before it. Steps
// are counted through the job: step s of epoch e is e*Steps+s.
type JobState struct {
	View    uint64  `json:"view"`
	Rank    int     `json:"rank"` // -1: it is not in the view, or ranks that are expected are missing
	World   int     `json:"world"`
	Cut     int64   `json:"cut"`     // lockstep: the view holds from here on
	Horizon int64   `json:"horizon"` // lockstep: steps below it may be delivered
	Done    int64   `json:"done"`    // lockstep: steps below it are done by all
	Halted  bool    `json:"halted"`  // lockstep: a rank is lost, and no redo has said where to go on
	Redo    uint64  `json:"redo"`    // lockstep: how often the job was set to a step
	By      uint64  `json:"by"`      // lockstep: Redo.By of the last time
	Reach   int64   `json:"reach"`   // lockstep: no step from here on was ever to be delivered
	Turn    uint64  `json:"turn"`    // lockstep: another one where the ranks, or where they go on, are others
	Epoch   int64   `json:"epoch"`
	Over    bool    `json:"over"`              // all epochs are closed
	Lane    []Span  `json:"lane"`              // async: what the rank has to deliver, in this order
	Closed  *Closed `json:"closed,omitempty"`  // the last epoch that was closed
	Waiting string  `json:"waiting,omitempty"` // why nothing new is decided now
	Ending  string  `json:"ending,omitempty"`  // why the rank has no part any more
	Cause   error   `json:"-"`                 // of an Ending that the rank has found: the agent said what cannot be
}

// mostSteps bounds the steps of a job, counted through: no job gets there.
const mostSteps = 1 << 62

// check finds out whether a state can be one of a rank that has attached as a says. Another would have
// the rank wait for ever, or deliver what it has not.
func (s *JobState) check(a *Attach) error {
	switch {
	case s.Ending != "":
		return nil // it says nothing else
	case s.World < 0 || s.World > maxWorld || s.Rank < -1 || s.Rank >= max(1, s.World):
		return nd.Errorf(nd.ErrCorrupt, "view %d with this rank as %d of %d", s.View, s.Rank, s.World)
	case s.Epoch < 0 || s.Epoch > mostSteps:
		return nd.Errorf(nd.ErrCorrupt, "epoch %d", s.Epoch)
	case s.Cut < 0 || s.Cut > mostSteps-1 || s.Horizon < 0 || s.Done < 0:
		return nd.Errorf(nd.ErrCorrupt, "view %d from step %d on, with a lease up to %d and %d done", s.View, s.Cut, s.Horizon, s.Done)
	case a.Mode == "async":
		return checkLane(s.Lane, a.N)
	}
	return nil
}

// checkLane finds out whether a lane has positions of an epoch, each once. Its order is its own: a
// lane that has got more at its end need not ascend.
func checkLane(lane []Span, n int64) error {
	byStart := func(a, b Span) int { return cmp.Compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(lane, byStart) {
		lane = slices.SortedFunc(slices.Values(lane), byStart)
	}
	at := int64(0)
	for _, x := range lane {
		if x.Start < at || x.Stop <= x.Start || x.Stop > n {
			return nd.Errorf(nd.ErrCorrupt, "positions %d to %d of a lane are empty, beyond the %d of an epoch, or there twice", x.Start, x.Stop, n)
		}
		at = x.Stop
	}
	return nil
}
