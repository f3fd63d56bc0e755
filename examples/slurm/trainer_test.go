package slurm_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// said is what a rank leaves behind, in a file of its own.
type said struct {
	Rank, World, Local, Node int
	Source                   string
	Report                   loader.Report
	Closed                   agentapi.Closed // by the agents
	Expected                 string
	Restarts                 string
}

// holdAfter is the batch after which a rank waits until the test says go.
const holdAfter = 2

// trainer is a rank: trainer --data DATA --out OUT. It means all crops of an array, once over the job:
// those that its agent gives it, or where the agent does not coordinate (headrace launch)
// its part by arithmetic. In the middle it waits for OUT/go.
func trainer(args []string) error {
	flags := flag.NewFlagSet("trainer", flag.ContinueOnError)
	data, out := flags.String("data", "", "an array"), flags.String("out", "", "folder of what ranks leave")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go endWhenTold()
	id, source, err := rank.Detect(os.LookupEnv)
	if err != nil {
		return err
	}
	refs := []pipeline.ArrayRef{{URI: *data}}
	arrays, err := loader.Arrays(ctx, refs...)
	if err != nil {
		return err
	}
	crops, err := sampler.NewGrid(sampler.GridCrops{Fields: []sampler.Field{{Name: "image", Crop: []int64{4, 4, 4}, Arrays: arrays}}})
	if err != nil {
		return err
	}
	cfg := loader.Config{BatchSize: 3, Shuffle: true, Pipeline: pipeline.Config{
		Arrays: refs, Device: "cpu", Fields: []pipeline.Field{{Name: "image", Shape: []int{4, 4, 4}, DType: nd.F32}},
	}}
	job, err := join(ctx, id, crops, &cfg)
	if err != nil {
		return err
	}
	l, err := loader.New(ctx, id, crops, cfg)
	if err != nil {
		return err
	}
	if err := epoch(ctx, l, *out); err != nil {
		return errors.Join(err, l.Close())
	}
	s := said{Rank: id.Rank, World: id.World, Local: id.LocalRank, Node: id.Node, Source: source, Expected: l.Expected(0).String(), Restarts: os.Getenv("TORCHELASTIC_RESTART_COUNT")}
	s.Report, _ = l.Report(0)
	if job != nil {
		s.Closed, _ = job.Closed()
		job.Close()
	}
	text, err := json.Marshal(s)
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*out, fmt.Sprintf("rank-%d.json", os.Getpid())), text, 0o600)
}

// endWhenTold ends a rank at USR1, as one that has written its checkpoint.
func endWhenTold() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	<-told
	os.Exit(75)
}

// join joins the job of the agent, if it coordinates.
func join(ctx context.Context, id rank.Identity, crops sampler.Source, cfg *loader.Config) (*fence.Fence, error) {
	if id.Agent == "" {
		return nil, nil //nolint:nilnil // no agent is no error
	}
	stream, err := cfg.Stream(crops, id)
	if err != nil {
		return nil, err
	}
	job, err := fence.Dial(ctx, id, agentapi.Attach{Plan: stream.PlanHash(), Mode: "async", N: stream.N, Steps: 1, Epochs: 1, Ahead: 64})
	if errors.Is(err, nd.ErrUnsupported) {
		return nil, nil //nolint:nilnil // the launcher's
	}
	if err == nil {
		cfg.Lanes, cfg.CommitOnRelease, cfg.NoCheck = job, true, true
	}
	return job, err
}

// epoch takes batches until the job's epoch is over.
func epoch(ctx context.Context, l *loader.Loader, out string) error {
	for n := 0; ; n++ {
		if n == holdAfter {
			if err := hold(ctx, out); err != nil {
				return err
			}
		}
		batch, err := l.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := batch.Release(nil); err != nil {
			return err
		}
	}
}

// hold says that this rank is in the middle, and waits for the test.
func hold(ctx context.Context, out string) error {
	if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("at-%d", os.Getpid())), nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(out, "go")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
