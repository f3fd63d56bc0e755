package loader_test

import (
	"context"
	"errors"
	"io"
	"log"
	"os"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// A trainer whose ranks come and go. Its agent is that of `headrace agent`, or of the
// launcher.
func ExampleLoader_Enter() {
	var source sampler.Source
	var cfg loader.Config // with Global, which all ranks give
	ctx := context.Background()

	id, _, err := rank.Detect(os.LookupEnv)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := cfg.Stream(source, id)
	if err != nil {
		log.Fatal(err)
	}
	job := agentapi.Attach{Plan: stream.PlanHash(), Mode: "lockstep", N: stream.N, Steps: stream.Steps()}
	f, err := fence.Dial(ctx, id, job)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	cfg.Fence, cfg.NoCheck = f, true // the agents compare the plans
	l, err := loader.New(ctx, id, source, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is written
	if err := l.Enter(ctx, f.Place()); err != nil {
		log.Fatal(err)
	}
	abort := func() {} // the collectives: one that waits for a rank which is lost waits for ever
	go watch(ctx, f, abort)
	step := func(*pipeline.Batch) error { return nil } // forward, backward, all-reduce, update
	last := func() (epoch, step int64) { return 0, 0 } // where the newest state of the model is
	if err := trainEpoch(ctx, f, l, step, last); err != nil {
		log.Fatal(err)
	}
}

// watch aborts what waits for a rank that is lost, or that goes back to another step.
func watch(ctx context.Context, f *fence.Fence, abort func()) {
	for {
		changed := f.Changed()
		if f.Interrupted() {
			abort()
		}
		if f.Err() != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// trainEpoch trains to the end of an epoch. When a rank is lost, those that are left go
// back to the step that the model's newest state belongs to: each of them may say so, the
// first is heard, and all enter the new view. What the model is then must be what it was
// before the step of the place that they enter.
func trainEpoch(ctx context.Context, f *fence.Fence, l *loader.Loader, train func(*pipeline.Batch) error, last func() (epoch, step int64)) error {
	for {
		batch, err := l.Next(ctx)
		var view *agentapi.ViewError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &view):
			if err := enter(ctx, f, l, last); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			if err := errors.Join(train(batch), batch.Release(nil)); err != nil {
				return err
			}
		}
	}
}

// enter enters the newest view. Meanwhile another rank may be the first to say where to go on, or
// be lost.
func enter(ctx context.Context, f *fence.Fence, l *loader.Loader, last func() (epoch, step int64)) error {
	for {
		if _, halted := f.Newest(); halted {
			epoch, step := last()
			if err := f.Redo(ctx, epoch, step); errors.Is(err, agentapi.ErrView) {
				continue
			} else if err != nil {
				return err
			}
		}
		place, err := f.Enter(ctx)
		if errors.Is(err, agentapi.ErrView) {
			continue
		}
		if err != nil {
			return err
		}
		return l.Enter(ctx, place)
	}
}
