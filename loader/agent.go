package loader

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// statsEvery is the time between two reports of the numbers to the agent.
const statsEvery = time.Second

// agent is the loader's side of the launcher's or agent's socket. A nil agent has
// nothing to do. It has one goroutine, which close ends.
type agent struct {
	client   *agentapi.Client
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
func attach(ctx context.Context, l *Loader, noCheck bool) (a *agent, note string, err error) {
	id := l.id
	if id.Agent == "" {
		return nil, "", nil
	}
	hello := agentapi.Hello{PID: os.Getpid(), RunID: id.RunID, Rank: id.Rank, World: id.World, LocalRank: id.LocalRank, Round: -1}
	if id.View != nil {
		hello.Round = int(*id.View)
	}
	client, err := agentapi.Dial(ctx, id.Agent, hello)
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil:
		return nil, "without the launcher's agent: " + err.Error(), nil
	}
	run, cancel := context.WithCancel(context.Background())
	a = &agent{
		client: client, stats: client.Offers(agentapi.OfferStats), ask: make(chan *ask, 1),
		cancel: cancel, done: make(chan struct{}),
		compares: !noCheck && client.Offers(agentapi.OfferPlanCheck),
	}
	go a.run(run, l)
	return a, "", nil
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
			err := a.client.PlanCheck(ctx, asked.plan)
			if ctx.Err() != nil {
				continue // who waits hears of the end
			}
			if err != nil && a.client.SendStats(agentapi.Stats{}) != nil {
				err = nil // no verdict: the launcher has gone
			}
			asked.verdict <- err
		case <-ctx.Done():
			if a.stats {
				_ = a.client.SendStats(l.numbers()) // the last ones, if anyone listens
			}
			return
		}
	}
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
	return a.client.Close()
}

// Plan is what this rank is about to load: what all ranks must agree on, and its own
// positions of the next batch. agentapi.Compare compares those of all ranks.
func (l *Loader) Plan() agentapi.Plan { return l.plan(0) }

// plan is the plan for the comparison of a number.
func (l *Loader) plan(number int) agentapi.Plan {
	at := l.place()
	if at.Step >= at.Stream.Steps() { // only the end is left of the epoch
		at = sampler.Resume{Stream: at.Stream, Epoch: at.Epoch + 1}
	}
	s, rest := at.Stream, at.Rest()
	p := agentapi.Plan{
		Check: l.name, Rank: l.id.Rank, World: l.id.World,
		PlanHash: s.PlanHash(), Fingerprint: s.Fingerprint, N: s.N, Global: s.Global, Seed: s.Seed,
		Epoch: at.Epoch, Tail: s.Tail.String(), Block: s.Block, Window: s.Window, Replicas: max(1, s.Replicas), Batch: rest,
		Own: sampler.Spans(s.Epoch(at.Epoch).Part(rest, l.id.Rank, l.id.World)),
	}
	if number > 0 {
		p.Check = fmt.Sprintf("%s, state %d", l.name, number)
	}
	return p
}

// numbers is the loader's Stats as the agent takes them.
func (l *Loader) numbers() agentapi.Stats {
	l.mu.Lock()
	at, s := l.mu.at, l.mu.pipe.Stats()
	var r Report
	if n := len(l.mu.reports); n > 0 {
		r = l.mu.reports[n-1]
	}
	total := l.mu.total
	l.mu.Unlock()
	return agentapi.Stats{
		"epoch": float64(at.Epoch), "step": float64(at.Step), "steps": float64(at.Stream.Steps()),
		"samples_total": float64(total.samples), "batches_total": float64(total.batches), "bytes_total": float64(total.bytes),
		"epoch_delivered": float64(r.Delivered), "epoch_skipped": float64(r.Skipped), "epoch_filled": float64(r.Filled),
		"samples_failed_total": float64(s.SamplesFailed),
		"chunk_uses_total":     float64(s.ChunkUses), "chunks_decoded_total": float64(s.ChunksDecoded),
		"chunks_reused_total": float64(s.ChunksReused), "chunks_missing_total": float64(s.ChunksMissing),
		"read_bytes_total": float64(s.Read.Out), "decoded_bytes_total": float64(s.Decode.Out),
		"next_wait_seconds_total": s.NextWait.Busy.Seconds(), "slot_wait_seconds_total": s.SlotWait.Busy.Seconds(),
		"host_bytes": float64(s.HostBytes), "device_bytes": float64(s.DeviceBytes), "mapped_bytes": float64(s.MappedBytes),
	}
}

// totals is what Next has returned since New, redone steps each time.
type totals struct{ samples, batches, bytes int64 }

func (t *totals) add(b *pipeline.Batch) {
	t.samples += samplesOf(b)
	t.batches++
	for i := range b.Fields() {
		t.bytes += b.Bytes(i)
	}
}
