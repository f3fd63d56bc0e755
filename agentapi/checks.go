package agentapi

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/nd"
)

// Limits of the plans that wait for others.
const (
	maxChecks    = 64       // names at a time
	maxPlanBytes = 64 << 20 // of all of them, as maps hold them
)

// checks collects the plans of a round's checks. Node 0 has one; it is not safe
// for concurrent use, and has no clock: its owner says when to give up.
type checks struct {
	world int
	bytes int
	open  map[string]*check
}

// check is one comparison that waits for plans.
type check struct {
	plans    []Plan
	have     map[int]bool // ranks
	deadline time.Time
}

func newChecks(world int) *checks { return &checks{world: world, open: map[string]*check{}} }

// add takes a plan. done says that the check of its name is over, with err.
func (c *checks) add(p Plan, deadline time.Time) (done bool, err error) {
	k, ok := c.open[p.Check]
	switch {
	case !ok && len(c.open) == maxChecks:
		return true, nd.Errorf(nd.ErrBudget, "%d plan checks wait for other ranks, no more are taken", maxChecks)
	case !ok:
		k = &check{have: map[int]bool{}, deadline: deadline}
		c.open[p.Check] = k
	case k.have[p.Rank]:
		return true, c.end(p.Check, nd.Errorf(nd.ErrConfig, "rank %d sent two plans named %q while it waited for the others: loaders of one name check one at a time", p.Rank, p.Check))
	}
	k.plans = append(k.plans, p)
	k.have[p.Rank] = true
	c.bytes += size(&p)
	switch {
	case p.World != c.world:
		err = nd.Errorf(nd.ErrConfig, "rank %d plans for a world of %d, the job has one of %d", p.Rank, p.World, c.world)
	case c.bytes > maxPlanBytes:
		err = nd.Errorf(nd.ErrBudget, "plans of more than %d MiB wait for other ranks", maxPlanBytes>>20)
	case len(k.plans) < c.world:
		return false, nil
	default:
		err = Compare(k.plans)
	}
	return true, c.end(p.Check, err)
}

// end forgets a check and passes its verdict on.
func (c *checks) end(name string, err error) error {
	for i := range c.open[name].plans {
		c.bytes -= size(&c.open[name].plans[i])
	}
	delete(c.open, name)
	return err
}

// expire ends the checks whose time is up, oldest first, and names who is missing.
func (c *checks) expire(now time.Time) []verdict {
	var over []verdict
	for name, k := range c.open {
		if now.Before(k.deadline) {
			continue
		}
		who := missing(c.world, func(rank int) bool { return k.have[rank] })
		err := nd.Errorf(nd.ErrIO, "no plan of %s came in time for the check %q", who, name)
		over = append(over, verdict{Check: name, Error: describe(c.end(name, err))})
	}
	slices.SortFunc(over, func(a, b verdict) int { return cmp.Compare(a.Check, b.Check) })
	return over
}

// size is about what a plan takes.
func size(p *Plan) int {
	return 256 + len(p.Check) + len(p.PlanHash) + len(p.Fingerprint) + 16*len(p.Own)
}

// verdict is the document by which node 0 tells the other nodes how a check ended.
type verdict struct {
	Round int       `json:"round"`
	Check string    `json:"check"`
	Error *errorDoc `json:"error,omitempty"`
}
