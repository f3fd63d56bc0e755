package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// Take gives at most n positions that follow each other, of an async rank's lane. It waits for work, and
// for room where too much is not committed. ErrOver is the end of the job.
func (f *Fence) Take(ctx context.Context, n int64) (epoch int64, positions nd.Span, err error) {
	for {
		f.mu.Lock()
		s := f.mu.state
		changed := f.mu.changed
		x, wait := f.mu.cursor.Take(n)
		f.mu.Unlock()
		switch {
		case s.Ending != "":
			return 0, nd.Span{}, ended(&s)
		case wait == coord.Go:
			return s.Epoch, x, nil
		case s.Over:
			return 0, nd.Span{}, ErrOver
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, nd.Span{}, f.waited(ctx, "there are no positions for this rank")
		}
	}
}

// TryTake is Take without a wait: false is nothing for now.
func (f *Fence) TryTake(n int64) (epoch int64, positions nd.Span, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.state.Ending != "" {
		return 0, nd.Span{}, false
	}
	x, wait := f.mu.cursor.Take(n)
	return f.mu.cursor.Epoch(), x, wait == coord.Go
}

// Holds reports whether positions that were taken, and are not finished, are still this
// rank's.
func (f *Fence) Holds(epoch int64, positions nd.Span) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.state.Ending == "" && epoch == f.mu.cursor.Epoch() && f.mu.cursor.Holds(positions)
}

// Closed is the last epoch that was closed, with the coverage that the agents agree on;
// false before there is one.
func (f *Fence) Closed() (agentapi.Closed, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.mu.state.Closed; c != nil {
		return *c, true
	}
	return agentapi.Closed{}, false
}

// Settled is what became of positions that were taken, as they were taken: their commit
// is effective, or they are void. Each is told once.
func (f *Fence) Settled() []agentapi.Decided {
	f.mu.Lock()
	defer f.mu.Unlock()
	settled := f.mu.settled
	f.mu.settled = nil
	return settled
}

// ErrOver is the end of a job: all epochs are complete, or the ranks of a lockstep job that had steps are
// done and have left. It matches io.EOF.
var ErrOver = fmt.Errorf("the job is over: %w", io.EOF)

// void is what was finished and does not count.
type void struct {
	agentapi.Decided
	refused bool // Finish has said so
}

// mostVoid bounds what is kept for Await, which need not be called.
const mostVoid = 1024

// lose keeps for Await what is void; the oldest goes where there is too much. f.mu is held.
func (f *Fence) lose(v void) {
	f.mu.void = append(f.mu.void[max(0, len(f.mu.void)-mostVoid+1):], v)
}

// notInLane is what became of positions that another rank has.
func notInLane(epoch int64, x nd.Span) agentapi.Decided {
	return agentapi.Decided{Epoch: epoch, Span: agentapi.Span(x), Reason: coord.VoidLane.String()}
}

// Await waits until it is known of all that this rank has finished whether it counts: nil
// means that it does, and stays so. What is void is a *agentapi.VoidError, which tells each
// part once, also those of which Finish was false. Parts are decided in the lane's order:
// what is finished waits for what was taken before it. If ctx ends first the error is a
// *agentapi.WaitError, and what is void is told by the next Await.
func (f *Fence) Await(ctx context.Context) error {
	return f.await(ctx, func(void) bool { return false })
}

// await is Await that does not tell what is told already.
func (f *Fence) await(ctx context.Context, told func(void) bool) error {
	for {
		f.mu.Lock()
		s, changed := f.mu.state, f.mu.changed
		var open []nd.Span
		if f.mu.cursor != nil {
			open = f.mu.cursor.Undecided()
		}
		var err error
		if len(open) == 0 || s.Ending != "" {
			err = f.tell(told)
		}
		f.mu.Unlock()
		switch {
		case len(open) == 0:
			return err
		case s.Ending != "":
			return errors.Join(err, nd.Errorf(nd.ErrClosed, "it is not known what became of %s: %s", list(open), s.Ending))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f.waited(ctx, "it is not known yet what became of "+list(open))
		}
	}
}

// tell is the error of what is void and was not told, which is told now. f.mu is held.
func (f *Fence) tell(told func(void) bool) error {
	var lost []agentapi.Decided
	for _, v := range f.mu.void {
		if !told(v) {
			lost = append(lost, v.Decided)
		}
	}
	f.mu.void = nil
	if lost == nil {
		return nil
	}
	return &agentapi.VoidError{Parts: lost}
}

// list names positions, the first of many.
func list(spans []nd.Span) string {
	text := fmt.Sprintf("positions %d to %d", spans[0].Start, spans[0].Stop)
	if more := len(spans) - 1; more > 0 {
		text += fmt.Sprintf(" and %d parts more", more)
	}
	return text
}

// Finish commits positions that were taken and are done, once; Await tells what becomes of them.
// It is false where they are void already: another rank has them.
func (f *Fence) Finish(epoch int64, positions nd.Span, digest [2]uint64) (bool, error) {
	f.commit.Lock()
	defer f.commit.Unlock()
	f.mu.Lock()
	if epoch != f.mu.cursor.Epoch() || !f.mu.cursor.Finish(positions, digest) {
		f.lose(void{notInLane(epoch, positions), true})
		f.mu.Unlock()
		return false, nil
	}
	parts := f.mu.cursor.Parts()
	f.mu.Unlock()
	list := make([]agentapi.Part, len(parts))
	for i, p := range parts {
		list[i] = agentapi.Part{Epoch: p.Epoch, Span: agentapi.Span(p.Span), Digest: digestText(p.Digest)}
	}
	for some := range slices.Chunk(list, agentapi.MaxParts) {
		if err := f.job.Commit(some); err != nil {
			return true, err
		}
	}
	return true, nil
}

func digestText(d [2]uint64) string { return sampler.Digest{Lanes: d}.String() }
