package loader

import (
	"context"
	"errors"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// ahead is what is under way: what the pipeline was given and has not returned.
// At the end of an epoch it goes on with the next, so that an epoch does not begin
// with an idle pipeline.
type ahead struct {
	source sampler.Source
	id     rank.Identity

	stream sampler.Stream
	order  *sampler.Order
	epoch  int64 // of the step to push next
	next   int64 // step to push next

	samples []sampler.Sample // of step next; kept while there is no room for them
	made    bool             // samples are set
	refused error            // why the pipeline does not take step next
	unsure  bool             // Discard was begun and did not return: what is under way is not known
}

// restart makes a step the next to push.
func (a *ahead) restart(stream sampler.Stream, epoch, step int64) {
	*a = ahead{source: a.source, id: a.id, stream: stream, order: stream.Order(epoch), epoch: epoch, next: step}
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
	if a.next >= a.stream.Steps() {
		return a.epoch+1 == epoch && step == 0
	}
	return a.epoch == epoch && a.next == step
}

// push pushes the next batch; false if the pipeline refused it or no epoch has
// any.
func (a *ahead) push(ctx context.Context, pipe *pipeline.Pipeline) (bool, error) {
	if a.refused != nil || a.stream.Steps() == 0 {
		return false, nil
	}
	if a.next >= a.stream.Steps() {
		a.restart(a.stream, a.epoch+1, 0)
	}
	if !a.made {
		a.samples, a.made = a.batch(a.next), true
	}
	meta := pipeline.Meta{Epoch: a.epoch, Step: a.next}
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
	a.next++
	a.samples, a.made, a.refused = nil, false, nil
}

// batch is this rank's samples of a step.
func (a *ahead) batch(step int64) []sampler.Sample {
	slice := a.stream.Slice(step, a.id.Rank, a.id.World)
	samples := make([]sampler.Sample, 0, slice.Len())
	for pos := slice.Start; pos < slice.Stop; pos++ {
		samples = append(samples, a.source.Sample(a.order.At(pos)))
	}
	return samples
}
