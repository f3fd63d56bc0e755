package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// loaderSpec is what a loader needs beyond its source and its pipeline.
type loaderSpec struct {
	BatchSize int    `json:"batch_size"` // of a rank; 0 if Global is given
	Global    int64  `json:"global_batch_size"`
	Seed      uint64 `json:"seed"`
	Shuffle   bool   `json:"shuffle"`
	Tail      string `json:"tail"`
	Block     int64  `json:"block"`
	Window    int    `json:"window"`
	Locality  bool   `json:"locality"`
	Replicas  int    `json:"replicas"`
	Data      bool   `json:"data_digest"`
	Name      string `json:"name"` // "" is the loader's number in the process
	NoCheck   bool   `json:"no_check"`
	Coord     string `json:"coord"`         // auto, off or require
	Mode      string `json:"mode"`          // lockstep or async
	Epochs    int64  `json:"epochs"`        // of an async job; 0 is as many as are asked for
	Manual    bool   `json:"manual_commit"` // async: the client commits
}

// who is what a client says of its place in the job, beyond its environment.
type who struct {
	Rank       *int `json:"rank"`
	World      *int `json:"world"`
	LocalRank  *int `json:"local_rank"`
	LocalWorld *int `json:"local_world"`
}

// identity is who the client of a request is: what it says wins over its environment.
func (r *request) identity() (rank.Identity, error) {
	o := rank.Override{Rank: r.Who.Rank, World: r.Who.World, LocalRank: r.Who.LocalRank, LocalWorld: r.Who.LocalWorld}
	id, _, err := o.Detect(variables(r.Env))
	if err != nil {
		return id, nd.Errorf(nd.ErrConfig, "%w", err)
	}
	return id, nil
}

// loaderObject is a loader with its identity.
type loaderObject struct {
	holdings
	l     *loader.Loader
	id    rank.Identity
	where placed

	source sampler.Source
	seat   *seat // nil in no job whose ranks come and go
	epochs int64 // of an async job
	manual bool  // the client commits
}

func openLoader(ctx context.Context, r *request) (*loaderObject, error) {
	if r.Loader == nil {
		return nil, nd.Errorf(nd.ErrBug, "the request has no loader")
	}
	id, err := r.identity()
	if err != nil {
		return nil, err
	}
	tail, err := sampler.ParseTail(r.Loader.Tail)
	if err != nil {
		return nil, err
	}
	source, err := openSource(ctx, r)
	if err != nil {
		return nil, err
	}
	p, err := r.config(source.arrays, source.feeds)
	if err != nil {
		return nil, err
	}
	p.BatchSize = 0 // the loader's to set
	at, err := findSeat(ctx, r, id)
	if err != nil {
		return nil, err
	}
	c := loader.Config{
		Pipeline: p, BatchSize: r.Loader.BatchSize, Global: r.Loader.Global,
		Seed: r.Loader.Seed, Shuffle: r.Loader.Shuffle, Tail: tail,
		Block: r.Loader.Block, Window: r.Loader.Window, Locality: r.Loader.Locality, Replicas: r.Loader.Replicas,
		DataDigest: r.Loader.Data, Name: r.Loader.Name, NoCheck: r.Loader.NoCheck,
	}
	at.configure(&c, r.Loader.Manual)
	l, err := loader.New(ctx, id, source.source, c)
	if err != nil {
		return nil, errors.Join(err, at.close())
	}
	return &loaderObject{l: l, id: id, where: r.placed, source: source.source, seat: at, epochs: r.Loader.Epochs, manual: r.Loader.Manual}, nil
}

func (o *loaderObject) close() error {
	defer o.end()
	err := o.seat.leave() // first: what is released from here on is not committed
	if !o.manual {
		err = nil // what is released and does not count has come to another rank
	} else if wait, ok := errors.AsType[*agentapi.WaitError](err); ok {
		err = nd.Errorf(nd.ErrIO, "closed without an answer: %s", wait.Error())
	}
	return errors.Join(err, o.l.Close(), o.seat.close())
}

// loaderAbout describes a loader; Load may change it.
type loaderAbout struct {
	placed
	Len         int64  `json:"len"` // batches of an epoch
	BatchSize   int64  `json:"batch_size"`
	Global      int64  `json:"global_batch_size"`
	Rank        int    `json:"rank"`
	World       int    `json:"world"`
	Fingerprint string `json:"fingerprint"`
	Plan        string `json:"plan"`   // hash of all that ranks must agree on
	Checks      bool   `json:"checks"` // the launcher's agent compares the plans
	Note        string `json:"note"`   // what is done without, "" for nothing
	Job         bool   `json:"job"`    // there is a job to join
	Joined      bool   `json:"joined"`
}

func (o *loaderObject) about() any { return o.is() }

func (o *loaderObject) is() loaderAbout {
	stream, id := o.l.Stream(), o.l.Identity()
	world, steps := id.World, o.l.Len()
	part := o.seat.taken()
	if o.seat != nil && o.seat.async {
		world = 1 // each rank has batches of its own
		if part != nil {
			place, _ := part.Newest()
			id.Rank, id.World = place.Rank, place.World
			steps = (stream.Steps() + int64(max(1, id.World)) - 1) / int64(max(1, id.World))
		}
	}
	return loaderAbout{
		placed: o.where,
		Len:    steps, BatchSize: stream.MaxRows(world), Global: stream.Global,
		Rank: id.Rank, World: id.World, Fingerprint: o.l.Fingerprint(),
		Plan: stream.PlanHash(), Checks: o.l.Checks(), Note: o.l.Note(), Job: o.seat != nil, Joined: o.seat.joined(),
	}
}

func (o *loaderObject) nextBatch(ctx context.Context) (Delivery, error) {
	b, err := o.l.Next(ctx)
	if err != nil {
		return Delivery{}, err
	}
	// Padding repeats a sample, and its error with it.
	errs := slices.DeleteFunc(slices.Clone(b.Errs()), func(err error) bool {
		bad, ok := errors.AsType[*pipeline.SampleError](err)
		return ok && bad.ID == loader.Padding
	})
	return deliver(b, errs, o.l.Weight(b))
}

func (o *loaderObject) answer(ctx context.Context, method string, argument []byte) (any, error) {
	if value, known, err := o.answerSeat(ctx, method, argument); known {
		return value, err
	}
	switch method {
	case "stats":
		out := loaderStats{stats: statsOf(o.where, o.l.Stats(), o.held()), Waiting: o.seat.waiting(), WaitingS: o.seat.waited().Seconds()}
		if here, ok := o.l.Locality(); ok {
			out.LaneLocality = new(here.Share())
		}
		return out, nil
	case "epoch":
		return o.l.Epoch(), nil
	case "set_epoch":
		epoch, err := whole("epoch", argument)
		if err != nil {
			return nil, err
		}
		return nil, o.l.SetEpoch(ctx, epoch)
	case "state":
		if o.seat != nil && o.seat.async {
			return nil, nd.Errorf(nd.ErrUnsupported, "state in mode async: what is done is the coordinator's to know")
		}
		return o.l.State(), nil
	case "load_state":
		var load struct {
			State       json.RawMessage `json:"state"`
			AcceptDrift bool            `json:"accept_drift"`
		}
		if err := Parse(argument, &load); err != nil {
			return nil, err
		}
		state, err := sampler.ParseState(load.State)
		if err != nil {
			return nil, err
		}
		err = o.l.Load(ctx, state, load.AcceptDrift)
		return o.about(), err
	case "restart":
		return nil, o.l.Restart(ctx)
	case "redo":
		var step struct {
			Epoch *int64 `json:"epoch"`
			Step  int64  `json:"step"`
		}
		if err := Parse(argument, &step); err != nil {
			return nil, err
		}
		if step.Epoch != nil && *step.Epoch != o.l.Epoch() {
			return nil, nd.Errorf(nd.ErrConfig, "redo of epoch %d in epoch %d: load a state to go elsewhere", *step.Epoch, o.l.Epoch())
		}
		return nil, o.l.Redo(ctx, step.Step)
	case "report":
		epoch, err := whole("epoch", argument)
		if err != nil {
			return nil, err
		}
		report, known := o.l.Report(epoch)
		if !known {
			return nil, nil
		}
		return report, nil
	}
	return o.prove(method, argument)
}

// prove answers what is asked to compare ranks and epochs.
func (o *loaderObject) prove(method string, argument []byte) (any, error) {
	switch method {
	case "origin":
		var ask struct {
			Epoch int64   `json:"epoch"`
			IDs   []int64 `json:"ids"`
		}
		if err := Parse(argument, &ask); err != nil {
			return nil, err
		}
		return origins(o.source, ask.Epoch, ask.IDs), nil
	case "quality":
		return o.l.Stream().Quality(), nil
	case "plan":
		return o.l.Plan(), nil
	case "compare":
		var plans []agentapi.Plan
		if err := json.Unmarshal(argument, &plans); err != nil {
			return nil, nd.Errorf(nd.ErrConfig, "plans: %w", err)
		}
		return nil, agentapi.Compare(plans)
	case "expected":
		epoch, err := whole("epoch", argument)
		if err != nil {
			return nil, err
		}
		d := o.l.Expected(epoch)
		return map[string]any{"epoch": epoch, "count": d.Count, "digest": d.String()}, nil
	}
	return nil, noMethod(method)
}

// whole reads an argument that is one whole number.
func whole(name string, argument []byte) (n int64, err error) {
	if err = json.Unmarshal(argument, &n); err != nil {
		err = nd.Errorf(nd.ErrConfig, "%s: %w", name, err)
	}
	return n, err
}
