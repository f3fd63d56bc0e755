package session

import (
	"context"
	"encoding/json"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
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
}

// loaderObject is a loader with its identity.
type loaderObject struct {
	holdings
	l     *loader.Loader
	id    rank.Identity
	where placed
}

func openLoader(ctx context.Context, r *request) (*loaderObject, error) {
	if r.Loader == nil {
		return nil, nd.Errorf(nd.ErrBug, "the request has no loader")
	}
	id, err := Identity(r.Env)
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
	l, err := loader.New(ctx, id, source.source, loader.Config{
		Pipeline: p, BatchSize: r.Loader.BatchSize, Global: r.Loader.Global,
		Seed: r.Loader.Seed, Shuffle: r.Loader.Shuffle, Tail: tail,
	})
	if err != nil {
		return nil, err
	}
	return &loaderObject{l: l, id: id, where: r.placed}, nil
}

func (o *loaderObject) close() error {
	defer o.end()
	return o.l.Close()
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
}

func (o *loaderObject) about() any {
	global := o.l.State().Global
	return loaderAbout{
		placed: o.where,
		Len:    o.l.Len(), BatchSize: (global-1)/int64(o.id.World) + 1, Global: global,
		Rank: o.id.Rank, World: o.id.World, Fingerprint: o.l.Fingerprint(),
	}
}

// nextBatch weighs a batch by its share of an even slice of a full global batch:
// the mean over the ranks of weight times the batch's mean is the mean over the
// global batch.
func (o *loaderObject) nextBatch(ctx context.Context) (Delivery, error) {
	b, err := o.l.Next(ctx)
	if err != nil {
		return Delivery{}, err
	}
	return deliver(b, float64(len(b.Samples()))*float64(o.id.World)/float64(o.l.State().Global))
}

func (o *loaderObject) answer(ctx context.Context, method string, argument []byte) (any, error) {
	switch method {
	case "stats":
		return statsOf(o.where, o.l.Stats(), o.held()), nil
	case "epoch":
		return o.l.Epoch(), nil
	case "set_epoch":
		var epoch int64
		if err := json.Unmarshal(argument, &epoch); err != nil {
			return nil, nd.Errorf(nd.ErrConfig, "epoch: %w", err)
		}
		return nil, o.l.SetEpoch(ctx, epoch)
	case "state":
		return o.l.State(), nil
	case "load_state":
		state, err := loader.ParseState(argument)
		if err != nil {
			return nil, err
		}
		err = o.l.Load(ctx, state)
		return o.about(), err
	}
	return nil, noMethod(method)
}
