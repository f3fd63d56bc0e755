// Command gonative is a trainer in Go, as small as one can be: it streams two
// epochs of random crops and computes the mean of each batch where a real trainer
// would take a step, on a GPU by a kernel of its own (mean.cu).
//
//	headrace demo --dir data/demo
//	go run ./examples/gonative data/demo/sharded-zstd data/demo/gzip
//	go run ./examples/gonative --device cuda:0,cuda:1 data/demo/gzip
//
// Each device is a rank: those of this process, and of all others where a launcher
// started several.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

const (
	crops     = 256
	batchSize = 16 // of a rank
	epochs    = 2
)

const usage = `usage: gonative [--device LIST] URI…

Streams two epochs of random crops of the zarr arrays at the URIs and prints the
mean of each batch.

  --device LIST   where batches are made and used, a rank for each: cpu (the default),
                  cuda:0,cuda:1 or so; "local" is the GPU of the local rank
`

func main() {
	flag.Usage = func() { _, _ = io.WriteString(flag.CommandLine.Output(), usage) }
	devices := flag.String("device", "cpu", "")
	flag.Parse()
	if err := train(context.Background(), *devices, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gonative:", err)
		os.Exit(1)
	}
}

// train streams crops of the arrays at uris to all devices of this process.
func train(ctx context.Context, list string, uris []string, out io.Writer) error {
	if len(uris) == 0 {
		return errors.New("name at least one array: gonative URI…")
	}
	id, _, err := rank.Detect(os.LookupEnv)
	if err != nil {
		return err
	}
	if list == "local" {
		list = "cuda:" + strconv.Itoa(id.LocalRank)
	}
	devices := strings.Split(list, ",")
	ranks := make([]*trainer, len(devices))
	var all sync.WaitGroup
	printing := &printer{out: out}
	for i, device := range devices {
		t := &trainer{id: spread(id, i, len(devices)), device: device, print: printing}
		ranks[i] = t
		all.Go(func() { t.err = t.run(ctx, uris) })
	}
	all.Wait()
	var errs []error
	for _, t := range ranks {
		errs = append(errs, t.err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return prove(ranks, id, out)
}

// spread is the identity of device i of n of a process: where each process has n, there
// are n times as many ranks.
func spread(id rank.Identity, i, n int) rank.Identity {
	id.Rank, id.World = id.Rank*n+i, id.World*n
	id.LocalRank, id.LocalWorld = id.LocalRank*n+i, id.LocalWorld*n
	if n > 1 {
		id.Agent = "" // the launcher knows of one rank in this process
	}
	return id
}

// prove prints what the ranks of this process got. Where they are all there are, that
// is the whole epoch, each crop once: its digest is the one that the plan alone gives.
func prove(ranks []*trainer, id rank.Identity, out io.Writer) error {
	for epoch := range epochs {
		var reports []loader.Report
		for _, t := range ranks {
			reports = append(reports, t.reports[epoch])
		}
		sum, err := loader.Merge(reports...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "epoch %d: %d of %d crops, digest %s", epoch, sum.Coverage.Count, sum.Of, sum.Coverage)
		if err == nil && id.World == 1 {
			_, err = fmt.Fprintf(out, ", exact: %v", sum.Coverage == ranks[0].expected[epoch])
		}
		if _, err2 := fmt.Fprintln(out); err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
	}
	return nil
}

// printer is the output of several ranks, a line at a time.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) line(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	return err
}

// consumer is what uses batches: a GPU, or the CPU.
type consumer interface {
	// take uses a batch and gives it back.
	take(b *pipeline.Batch) (mean float64, err error)
	close() error
}

// trainer is one rank on one device.
type trainer struct {
	id       rank.Identity
	device   string
	print    *printer
	reports  [epochs]loader.Report
	expected [epochs]sampler.Digest
	err      error
}

func (t *trainer) run(ctx context.Context, uris []string) (err error) {
	var to consumer = cpu{}
	if t.device != "cpu" {
		g, err := openGPU(t.device)
		if err != nil {
			return err
		}
		to = g
	}
	defer func() { err = errors.Join(err, to.close()) }()
	l, err := t.open(ctx, uris)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for epoch := range int64(epochs) {
		if err := t.epoch(ctx, l, to); err != nil {
			return err
		}
		t.reports[epoch], _ = l.Report(epoch)
		t.expected[epoch] = l.Expected(epoch)
	}
	return nil
}

// open makes the loader: where crops come from, what a batch looks like.
func (t *trainer) open(ctx context.Context, uris []string) (*loader.Loader, error) {
	var refs []pipeline.ArrayRef
	for _, uri := range uris {
		refs = append(refs, pipeline.ArrayRef{URI: uri})
	}
	arrays, err := loader.Arrays(ctx, refs...)
	if err != nil {
		return nil, err
	}
	image := sampler.Field{Name: "image", Crop: []int64{32, 64, 64}, Arrays: arrays}
	source, err := sampler.NewRandom(sampler.RandomCrops{Fields: []sampler.Field{image}, Count: crops, Seed: 1})
	if err != nil {
		return nil, err
	}
	return loader.New(ctx, t.id, source, loader.Config{
		BatchSize: batchSize, Shuffle: true,
		Pipeline: pipeline.Config{
			Arrays: refs, Device: pipeline.Device(t.device),
			Fields: []pipeline.Field{{Name: "image", Shape: []int{32, 64, 64}, DType: nd.F32}},
		},
	})
}

// epoch is one epoch of one rank.
func (t *trainer) epoch(ctx context.Context, l *loader.Loader, to consumer) error {
	for {
		batch, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		meta, n := batch.Meta(), len(batch.Samples())
		mean, err := to.take(batch)
		if err != nil {
			return err
		}
		if err := t.print.line("rank %d epoch %d step %d: %d crops, mean %.3f", t.id.Rank, meta.Epoch, meta.Step, n, mean); err != nil {
			return err
		}
	}
}
