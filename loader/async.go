package loader

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// async is the part of a loader with Lanes. What is not under mu belongs to who holds the
// loader's turn.
//
//	TryTake ──▶ queue ──▶ pipeline ──▶ Next ──▶ out ──▶ Commit ──▶ finished ──▶ Settled ──▶ report
type async struct {
	lanes     Lanes
	size      int64
	onRelease func(pipeline.Meta) // commits a batch; nil without CommitOnRelease

	epoch  *sampler.Epoch // of what is taken
	now    sampler.Source
	key    sampler.DigestKey
	steps  int64  // batches that were taken of the epoch
	queue  []part // taken, in order; the first pushed of them are in the pipeline
	pushed int
	again  again
	begun  bool  // at is an epoch of the job
	failed *part // an error took its place in the last Next

	mu struct {
		sync.Mutex
		out      []part // returned, and not committed
		finished []part // committed, and not settled
		locality Locality
		err      error // of a commit by a release
	}
}

// newAsync is that of a loader whose batches have at most size samples.
func newAsync(c *Config, size int64, again again) *async {
	a := &async{lanes: c.Lanes, size: size, again: again}
	if c.CommitOnRelease {
		a.onRelease = a.released
	}
	return a
}

// part is the positions of one batch.
type part struct {
	epoch, step int64
	span        nd.Span
	digest      sampler.Digest
	samples     []sampler.Sample // until it is pushed
	refused     error            // why the pipeline does not take it
	report      Report           // what it adds
}

// nextOfLane is Next of a loader with Lanes.
func (l *Loader) nextOfLane(ctx context.Context, pipe *pipeline.Pipeline) (*pipeline.Batch, error) {
	a := l.async
	if err := a.goOn(); err != nil {
		return nil, err
	}
	a.settle(l)
	for {
		if err := l.takeAhead(pipe); err != nil {
			return nil, err
		}
		if len(a.queue) == 0 {
			if err := l.takeNext(ctx); err != nil {
				return nil, err
			}
		}
		head := a.queue[0]
		if at := l.place(); head.epoch != at.Epoch || !a.begun {
			ended := a.begun
			a.begun = true
			l.beginEpoch(sampler.Resume{Stream: at.Stream, Epoch: head.epoch})
			if ended {
				return nil, io.EOF
			}
		}
		if a.pushed == 0 && head.refused == nil {
			if err := l.push(ctx, pipe); err != nil {
				return nil, err
			}
			continue
		}
		batch, err := l.receive(ctx, pipe)
		if batch != nil || err != nil {
			if err == nil {
				_ = l.takeAhead(pipe) // trouble shows at the next call
			}
			return batch, err
		}
	}
}

// goOn is told that the caller goes on after the last Next: a batch in whose place there
// was an error is done with.
func (a *async) goOn() error {
	if a.failed != nil {
		p := *a.failed
		a.failed = nil
		if _, err := a.finish(p); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.mu.err
	a.mu.err = nil
	return err
}

// takeAhead takes and pushes until the pipeline's look-ahead is full, or nothing can be
// taken. It never waits.
func (l *Loader) takeAhead(pipe *pipeline.Pipeline) error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		for l.async.pushed < len(l.async.queue) {
			err := l.push(ended, pipe)
			switch {
			case errors.Is(err, context.Canceled):
				return nil
			case err != nil:
				return err
			}
		}
		epoch, span, ok := l.async.lanes.TryTake(l.async.size)
		if !ok {
			return nil
		}
		l.enqueue(epoch, span)
	}
}

// takeNext waits for positions. Who asks for more than there is has done with what it was
// given, if it commits by releasing: the last batch of a lane would else wait for a release
// that comes after this call.
func (l *Loader) takeNext(ctx context.Context) error {
	a := l.async
	epoch, span, ok := a.lanes.TryTake(a.size)
	if !ok {
		if a.onRelease != nil {
			if err := a.finishAll(); err != nil {
				return err
			}
		}
		var err error
		if epoch, span, err = a.lanes.Take(ctx, a.size); err != nil {
			return err
		}
	}
	l.enqueue(epoch, span)
	return nil
}

// enqueue makes a batch of positions that were taken.
func (l *Loader) enqueue(epoch int64, span nd.Span) {
	a := l.async
	if a.epoch == nil || a.epoch.Number != epoch {
		a.epoch = l.Stream().Epoch(epoch)
		a.now, a.key, a.steps = sampler.InEpoch(l.source, epoch), a.epoch.DigestKey(epoch), 0
		a.again.begin()
	}
	p := part{epoch: epoch, step: a.steps, span: span, samples: make([]sampler.Sample, 0, span.Len())}
	a.steps++
	order := a.epoch.Order()
	for at := span.Start; at < span.Stop; at++ {
		id := order.At(at)
		p.samples = append(p.samples, a.now.Sample(id))
		a.key.Add(&p.digest, at, id)
		a.again.add(id)
	}
	a.mu.Lock()
	a.mu.locality = a.again.share
	a.mu.Unlock()
	a.queue = append(a.queue, p)
}

// push gives the pipeline the first batch that it does not have.
func (l *Loader) push(ctx context.Context, pipe *pipeline.Pipeline) error {
	p := &l.async.queue[l.async.pushed]
	meta := pipeline.Meta{Epoch: p.epoch, Step: p.step}
	if v := l.id.View; v != nil {
		meta.View = int64(*v)
	}
	err := pipe.PushBatch(ctx, meta, p.samples)
	if errors.Is(err, nd.ErrShape) {
		p.refused, err = err, nil
	}
	if err == nil {
		l.async.pushed++
		p.samples = nil
	}
	return err
}

// receive takes the first batch out of the pipeline, and counts it as returned; none
// where it became void meanwhile.
func (l *Loader) receive(ctx context.Context, pipe *pipeline.Pipeline) (*pipeline.Batch, error) {
	a := l.async
	head := a.queue[0]
	batch, err := (*pipeline.Batch)(nil), head.refused
	if err == nil {
		batch, err = pipe.Next(ctx)
	}
	var bad *pipeline.BatchError
	if err != nil && head.refused == nil && !errors.As(err, &bad) {
		return nil, err
	}
	a.queue = slices.Delete(a.queue, 0, 1)
	a.pushed--
	if !a.lanes.Holds(head.epoch, head.span) {
		if batch != nil {
			return nil, batch.Release(nil)
		}
		return nil, nil
	}
	head.report = l.counted(batch, head)
	l.mu.Lock()
	l.mu.at.Step = head.step + 1
	if batch != nil {
		l.mu.total.add(batch)
	}
	l.mu.Unlock()
	if batch == nil {
		a.failed = new(head)
		return nil, err
	}
	a.mu.Lock()
	a.mu.out = append(a.mu.out, head)
	a.mu.Unlock()
	if a.onRelease != nil {
		batch.OnFree(a.onRelease)
	}
	return batch, nil
}

// counted is what a batch adds to the report of its epoch.
func (l *Loader) counted(b *pipeline.Batch, p part) Report {
	r := Report{Coverage: p.digest}
	if b == nil {
		r.Skipped = p.span.Len()
		return r
	}
	r.Delivered = samplesOf(b)
	r.Skipped = p.span.Len() - r.Delivered
	if l.config.OnError == pipeline.Fill {
		r.Filled = int64(len(failed(b)))
	}
	return r
}

// beginEpoch makes an epoch the current one.
func (l *Loader) beginEpoch(to sampler.Resume) {
	l.async.settle(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.at = to
	l.mu.reports.put(Report{Epoch: to.Epoch, Of: to.Stream.N})
}

// Commit says that the caller is done with a batch of a loader with Lanes. It is false
// where the batch is void: another rank has its positions now, and what was made of it
// must not count. Batches may be committed in any order, after their Release too; a batch
// that was committed before is committed.
func (l *Loader) Commit(b *pipeline.Batch) (bool, error) {
	if l.async == nil {
		return false, nd.Errorf(nd.ErrConfig, "a commit of a loader without Lanes: in lockstep a step is done when the next one is asked for")
	}
	m := b.Meta()
	return l.CommitStep(m.Epoch, m.Step)
}

// CommitStep is Commit of the batch with this epoch and step in its Meta.
func (l *Loader) CommitStep(epoch, step int64) (bool, error) {
	if l.async == nil {
		return false, nd.Errorf(nd.ErrConfig, "a commit of a loader without Lanes")
	}
	return l.async.commit(epoch, step)
}

// commit commits a batch; one that is not out was committed before.
func (a *async) commit(epoch, step int64) (bool, error) {
	a.mu.Lock()
	i := slices.IndexFunc(a.mu.out, func(p part) bool { return p.epoch == epoch && p.step == step })
	if i < 0 {
		a.mu.Unlock()
		return true, nil
	}
	p := a.mu.out[i]
	a.mu.out = slices.Delete(a.mu.out, i, i+1)
	a.mu.Unlock()
	return a.finish(p)
}

// Flush waits until the coordinator has decided all that was committed, released batches of a
// loader with CommitOnRelease too. After nil all of it counts, for good. What does not is a
// *agentapi.VoidError, which tells each part once, also those of which Commit was false. If ctx
// ends first, the error matches its and says what is waited for; what was committed may count
// all the same, and what does not is told by the next Flush. It may be called after Close,
// while the Lanes are in the job.
func (l *Loader) Flush(ctx context.Context) error {
	if l.async == nil {
		return nd.Errorf(nd.ErrConfig, "a flush of a loader without Lanes: nothing is committed")
	}
	a := l.async
	err := a.lanes.Await(ctx)
	a.settle(l)
	a.mu.Lock()
	defer a.mu.Unlock()
	err = errors.Join(err, a.mu.err)
	a.mu.err = nil
	return err
}

// Ahead is how many positions of a lane this rank may have under way at a time: with fewer
// without a commit than these (agentapi.Attach.Ahead) its pipeline is never full.
func (l *Loader) Ahead() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.mu.pipe.Capacity())
}

// Locality is what a loader with Lanes has taken of storage blocks since New; false without
// Lanes, or where the samples have no blocks.
func (l *Loader) Locality() (Locality, bool) {
	if l.async == nil || l.async.again.seen == nil {
		return Locality{}, false
	}
	l.async.mu.Lock()
	defer l.async.mu.Unlock()
	return l.async.mu.locality, true
}

// released commits a batch whose last holder has released it.
func (a *async) released(m pipeline.Meta) {
	if _, err := a.commit(m.Epoch, m.Step); err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.err = errors.Join(a.mu.err, err)
	}
}

// finishAll commits all that was returned.
func (a *async) finishAll() error {
	a.mu.Lock()
	out := a.mu.out
	a.mu.out = nil
	a.mu.Unlock()
	for _, p := range out {
		if _, err := a.finish(p); err != nil {
			return err
		}
	}
	return nil
}

// finish tells the lanes of a batch that is done with.
func (a *async) finish(p part) (bool, error) {
	a.mu.Lock()
	a.mu.finished = append(a.mu.finished, p) // before it can be settled
	a.mu.Unlock()
	ok, err := a.lanes.Finish(p.epoch, p.span, p.digest.Lanes)
	if !ok {
		a.take(p.epoch, p.span)
	}
	return ok, err
}

// take takes a batch off those that are not settled.
func (a *async) take(epoch int64, span nd.Span) (p part, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.mu.finished, func(p part) bool { return p.epoch == epoch && p.span == span })
	if i < 0 {
		return p, false
	}
	p = a.mu.finished[i]
	a.mu.finished = slices.Delete(a.mu.finished, i, i+1)
	return p, true
}

// settle counts what the coordinator has decided.
func (a *async) settle(l *Loader) {
	for _, d := range a.lanes.Settled() {
		p, found := a.take(d.Epoch, nd.Span(d.Span))
		if !found || !d.Effective {
			continue
		}
		l.mu.Lock()
		for i := range l.mu.reports {
			if r := &l.mu.reports[i]; r.Epoch == p.epoch {
				r.Delivered += p.report.Delivered
				r.Skipped += p.report.Skipped
				r.Filled += p.report.Filled
				r.Coverage = r.Coverage.Merge(p.report.Coverage)
			}
		}
		l.mu.Unlock()
	}
}

// notAsync refuses what only a loader without Lanes can do.
func (l *Loader) notAsync(what string) error {
	if l.async == nil {
		return nil
	}
	return nd.Errorf(nd.ErrUnsupported, "%s of a loader with Lanes: which positions it has next is the job's to say", what)
}
