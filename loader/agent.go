package loader

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// statsEvery is the time between two reports of the numbers to the agent.
const statsEvery = time.Second

// agent is the loader's side of the launcher's or agent's socket. A nil agent has
// nothing to do. It has one goroutine, which close ends.
type agent struct {
	client   *agentapi.Client
	owns     bool      // the client is closed with the loader
	compares bool      // plans are compared
	stats    bool      // the other side takes them; the goroutine's
	ask      chan *ask // holds one
	cancel   context.CancelFunc
	done     chan struct{}

	// These belong to who holds the loader's turn.
	current *ask // nil: the comparison is still to be asked for
	asked   int  // comparisons so far
}

// ask is one comparison of plans. The verdict holds one.
type ask struct {
	plan    agentapi.Plan
	verdict chan error
}

// attach connects the loader to its agent. What is not there, or is another job's, is
// done without; the note says so.
func attach(ctx context.Context, l *Loader, cfg *Config) (a *agent, note string, err error) {
	client := cfg.Agent
	switch {
	case client != nil:
	case l.id.Agent == "":
		return nil, "", nil
	default:
		if client, note, err = dial(ctx, l.id); client == nil {
			return nil, note, err
		}
	}
	run, cancel := context.WithCancel(context.Background())
	a = &agent{
		client: client, owns: cfg.Agent == nil, stats: client.Offers(agentapi.OfferStats), ask: make(chan *ask, 1),
		cancel: cancel, done: make(chan struct{}),
		compares: !cfg.NoCheck && client.Offers(agentapi.OfferPlanCheck),
	}
	go a.run(run, l)
	return a, "", nil
}

// dial connects to the agent that the identity names. Without a client there is a note, or
// the error of the context.
func dial(ctx context.Context, id rank.Identity) (client *agentapi.Client, note string, err error) {
	hello := agentapi.Hello{PID: os.Getpid(), RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1}
	if id.View != nil {
		hello.Round = int(*id.View)
	}
	client, err = agentapi.Dial(ctx, id.Agent, hello)
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil:
		return nil, "without the launcher's agent: " + err.Error(), nil
	}
	return client, "", nil
}

// run sends the numbers, and the plans when they are asked for.
func (a *agent) run(ctx context.Context, l *Loader) {
	defer close(a.done)
	tick := time.NewTicker(statsEvery)
	defer tick.Stop()
	for {
		if a.stats && a.client.SendStats(l.numbers()) != nil {
			a.stats = false // the launcher has gone: a rank loads data without it
		}
		select {
		case <-tick.C:
		case asked := <-a.ask:
			err := compare(ctx, a.client, asked.plan, verdictBound)
			if ctx.Err() != nil {
				continue // who waits hears of the end
			}
			if err != nil && a.client.SendStats(l.numbers()) != nil {
				err = nil // no verdict: the launcher has gone
			}
			asked.verdict <- hinted(err)
		case <-ctx.Done():
			if a.stats {
				_ = a.client.SendStats(l.numbers()) // the last ones, if anyone listens
			}
			return
		}
	}
}

// verdictBound is how long an agent may take to compare the plans. One that lives
// answers within a minute, with the ranks that are missing; this one was stopped.
const verdictBound = 3 * time.Minute

// compare has the plans compared, within a bound.
func compare(ctx context.Context, client *agentapi.Client, plan agentapi.Plan, bound time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := client.PlanCheck(bounded, plan)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nd.Errorf(nd.ErrIO, "the launcher's agent has not compared the ranks' plans within %v: it may be stopped", bound)
	}
	return err
}

// hinted says what to do about plans that never came.
func hinted(err error) error {
	if e, ok := errors.AsType[*nd.Error](err); ok && errors.Is(err, nd.ErrIO) {
		return nd.Errorf(nd.ErrIO, "%s; NoCheck is for a loader that not all ranks open", e.Detail)
	}
	return err
}

// check waits until all ranks' plans were compared, once. A context that ends loses
// nothing: the next call waits for the same verdict.
func (a *agent) check(ctx context.Context, l *Loader) error {
	if a == nil || !a.compares {
		return nil
	}
	if a.current == nil {
		next := &ask{plan: l.plan(a.asked), verdict: make(chan error, 1)}
		select {
		case a.ask <- next:
			a.current = next
			a.asked++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case err := <-a.current.verdict:
		a.current.verdict <- err // at every later call too
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-a.done:
		return nd.Errorf(nd.ErrClosed, "the loader is closed")
	}
}

// recheck has the plans compared once more: this rank goes on from another place, and
// so must all.
func (a *agent) recheck() {
	if a != nil {
		a.current = nil
	}
}

// close ends the goroutine and the connection.
func (a *agent) close() error {
	if a == nil {
		return nil
	}
	a.cancel()
	<-a.done
	if !a.owns {
		return nil
	}
	return a.client.Close()
}
