package loader

import (
	"context"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// Lanes hands out the positions of an epoch, for jobs whose ranks go each at its own pace:
// a coordinator's lane of this rank. A loader with Lanes asks it, and not the arithmetic
// of the step, what comes next.
//
// What was taken is this rank's until its lane is changed under it. It is void then:
// another rank has it, and what this one made of it must not count. What Finish was told
// is settled by the coordinator later: it counts, or it came too late.
//
// The loader calls Take from Next alone, the rest from any goroutine.
type Lanes interface {
	// Take waits for at most n positions that follow each other. Its error is that of
	// Next; it matches io.EOF where the job is over.
	Take(ctx context.Context, n int64) (epoch int64, positions nd.Span, err error)
	// TryTake does not wait; false is nothing for now.
	TryTake(n int64) (epoch int64, positions nd.Span, ok bool)
	// Holds reports whether positions that were taken are still this rank's.
	Holds(epoch int64, positions nd.Span) bool
	// Finish says that the rank is done with positions that it took, and their digest;
	// false where they are void.
	Finish(epoch int64, positions nd.Span, digest [2]uint64) (bool, error)
	// Settled is what became of what Finish was told, once each, as it was taken.
	Settled() []agentapi.Decided
	// Await waits until it is known of all that Finish was told whether it counts: nil
	// where all of it does, a *agentapi.VoidError that tells each other part once, also
	// those of which Finish was false, or the error of a wait that ctx has ended.
	Await(ctx context.Context) error
}
