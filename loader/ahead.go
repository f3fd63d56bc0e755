package loader

import (
	"context"
	"errors"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// Padding is the ID of a row that only fills a batch up (sampler.TailMask): its
// values are those of a sample of the batch, and its weight is 0.
const Padding = -1

// ahead is what is under way: what the pipeline was given and has not returned.
// At the end of an epoch it goes on with the next, so that an epoch does not begin
// with an idle pipeline.
type ahead struct {
	source sampler.Source
	id     rank.Identity
	turn   int64 // of the rank's place
	epoch  *sampler.Epoch
	now    sampler.Source // the source in this epoch
	next   sampler.Resume // what to push next

	samples []sampler.Sample // of step next; kept while there is no room for them
	made    bool             // samples are set
	refused error            // why the pipeline does not take step next
	unsure  bool             // Discard was begun and did not return: what is under way is not known
}

// restart makes a step the next to push.
func (a *ahead) restart(to sampler.Resume) {
	*a = ahead{source: a.source, id: a.id, turn: a.turn, epoch: to.Stream.Epoch(to.Epoch), now: sampler.InEpoch(a.source, to.Epoch), next: to}
}

// fill pushes batches until the pipeline's look-ahead is full.
// It never waits.
func (a *ahead) fill(pipe *pipeline.Pipeline) error {
	// PushBatch looks for room before it looks at the context: with one that has
	// ended it takes what there is room for and does not wait.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		pushed, err := a.push(ended, pipe)
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case err != nil || !pushed:
			return err
		}
	}
}

// at reports whether nothing is under way for a loader that is at this step. The
// end of an epoch is the start of the next.
func (a *ahead) at(epoch, step int64) bool {
	if a.over() {
		return a.next.Epoch+1 == epoch && step == 0
	}
	return a.next.Epoch == epoch && a.next.Step == step
}

// over reports whether all of the epoch was pushed.
func (a *ahead) over() bool { return a.next.Step >= a.epoch.Steps() }

// push pushes the next batch; false if the pipeline refused it or no epoch has
// any.
func (a *ahead) push(ctx context.Context, pipe *pipeline.Pipeline) (bool, error) {
	if a.refused != nil || a.epoch.Steps() == 0 {
		return false, nil
	}
	if a.over() {
		a.restart(sampler.Resume{Stream: a.next.Stream, Epoch: a.next.Epoch + 1})
	}
	if !a.made {
		a.samples, a.made = a.batch(), true
	}
	meta := pipeline.Meta{Epoch: a.next.Epoch, Step: a.next.Step, Turn: a.turn}
	if a.id.View != nil {
		meta.View = int64(*a.id.View)
	}
	err := pipe.PushBatch(ctx, meta, a.samples)
	if errors.Is(err, nd.ErrShape) {
		// A sample of the source does not fit its field. The error waits until the
		// batches before it are out.
		a.refused = err
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a.pass()
	return true, nil
}

// pass goes on to the step after next.
func (a *ahead) pass() {
	a.next.Step, a.next.Skip = a.next.Step+1, 0
	a.samples, a.made, a.refused = nil, false, nil
}

// batch is this rank's rows of the next step: its samples, and with TailMask the
// padding behind them.
func (a *ahead) batch() []sampler.Sample {
	span, order := a.next.Rest(), a.epoch.Order()
	positions := a.epoch.Part(span, a.id.Rank, a.id.World)
	rows := int64(len(positions))
	if a.epoch.Tail == sampler.TailMask {
		rows = a.epoch.MaxRows(a.id.World)
	}
	samples := make([]sampler.Sample, 0, rows)
	for _, p := range positions {
		samples = append(samples, a.now.Sample(order.At(p)))
	}
	if int64(len(samples)) == rows {
		return samples
	}
	// The values of a sample that is read in any case: no more I/O, and nothing that
	// the trainer's arithmetic has not seen. A rank without one takes the batch's first.
	padding := sampler.Sample{ID: Padding}
	if len(samples) > 0 {
		padding.Crops = samples[0].Crops
	} else {
		padding.Crops = a.now.Sample(order.At(span.Start)).Crops
	}
	for int64(len(samples)) < rows {
		samples = append(samples, padding)
	}
	return samples
}
