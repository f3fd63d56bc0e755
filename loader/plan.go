package loader

import (
	"fmt"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/sampler"
)

// Plan is what this rank is about to load: what all ranks must agree on, and its own
// positions of the next batch. agentapi.Compare compares those of all ranks.
func (l *Loader) Plan() agentapi.Plan { return l.plan(0) }

// plan is the plan for the comparison of a number.
func (l *Loader) plan(number int) agentapi.Plan {
	at, id := l.place(), l.Identity()
	if at.Step >= at.Stream.Steps() { // only the end is left of the epoch
		at = sampler.Resume{Stream: at.Stream, Epoch: at.Epoch + 1}
	}
	s, rest := at.Stream, at.Rest()
	p := agentapi.Plan{
		Check: l.name, Rank: id.Rank, World: id.World,
		PlanHash: s.PlanHash(), Fingerprint: s.Fingerprint, N: s.N, Global: s.Global, Seed: s.Seed,
		Epoch: at.Epoch, Tail: s.Tail.String(), Block: s.Block, Window: s.Window, Replicas: max(1, s.Replicas), Batch: rest,
		Own: sampler.Spans(s.Epoch(at.Epoch).Part(rest, id.Rank, id.World)),
	}
	if number > 0 {
		p.Check = fmt.Sprintf("%s, state %d", l.name, number)
	}
	return p
}
