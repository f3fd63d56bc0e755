package loader

import (
	"context"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Enter makes the loader the rank of a place in a job whose ranks come and go: Next
// returns that rank's part of the place's step, and of those after it. The global batches
// are the same for any number of ranks. What is under way is dropped, and the pipeline is
// opened again where this rank may get more rows now than it has room for; if that fails
// the loader is closed.
//
// Steps from the place on that were returned already are taken back from the report,
// as Redo does; where it lies further back than Redo can go, or elsewhere, the report
// begins anew. If ctx ends first, the loader is what it was.
func (l *Loader) Enter(ctx context.Context, p agentapi.Place) error {
	pipe, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.notAsync("Enter"); err != nil {
		return err
	}
	at := l.place()
	rows, err := checkPlace(at.Stream, p)
	if err != nil {
		return err
	}
	if rows <= pipe.Config().BatchSize {
		l.ahead.unsure = true
		err = pipe.Discard(ctx)
	} else {
		err = l.reopen(ctx, rows)
	}
	if err != nil {
		return err
	}
	l.become(p)
	l.goTo(at, p)
	return nil
}

// checkPlace says whether a rank of the stream can be at a place, and how many rows it
// may get in a batch.
func checkPlace(s sampler.Stream, p agentapi.Place) (rows int, err error) {
	switch {
	case p.Rank < 0 || p.Rank >= p.World:
		return 0, nd.Errorf(nd.ErrConfig, "a place as rank %d of %d", p.Rank, p.World)
	case p.Step < 0 || p.Step > s.Steps():
		return 0, nd.Errorf(nd.ErrConfig, "a place at step %d of %d", p.Step, s.Steps())
	case s.Nodes > 0:
		return 0, nd.Errorf(nd.ErrUnsupported, "Locality where ranks come and go: which node has how many of them is not known")
	}
	if err := checkEpoch(p.Epoch); err != nil {
		return 0, err
	}
	if err := s.CheckWorld(p.World); err != nil {
		return 0, err
	}
	return mostRows(s, p.World)
}

// become makes the loader another rank.
func (l *Loader) become(p agentapi.Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	view := p.View
	l.id.Rank, l.id.World, l.id.View = p.Rank, p.World, &view
	l.ahead.id, l.ahead.turn = l.id, int64(p.Turn)
}

// goTo goes to the step of a place. Nothing may be under way.
func (l *Loader) goTo(at sampler.Resume, p agentapi.Place) {
	// The begin of an epoch whose predecessor's end is still to be told is that end.
	last := at.Step >= at.Stream.Steps() && p.Epoch == at.Epoch+1 && p.Step == 0
	if last || p.Epoch == at.Epoch && p.Step == at.Step {
		l.ahead.restart(at)
		return
	}
	if p.Epoch == at.Epoch {
		if was, err := l.tally.before(at, p.Step); err == nil {
			l.goBack(was)
			return
		}
	}
	l.moveTo(sampler.Resume{Stream: at.Stream, Epoch: p.Epoch, Step: p.Step})
}
