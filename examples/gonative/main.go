// Command gonative is a trainer in Go, as small as one can be: it streams two
// epochs of random crops and prints the mean of each batch where a real trainer
// would take a step.
//
//	headrace demo --dir data/demo
//	go run ./examples/gonative data/demo/sharded-zstd data/demo/gzip
//
// Started by torchrun, each process gets its share of every batch; alone it gets
// all of it.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

const (
	crops     = 256
	batchSize = 16
	epochs    = 2
)

const usage = `usage: gonative URI…

Streams two epochs of random crops of the zarr arrays at the URIs and prints the
mean of each batch.
`

func main() {
	flag.Usage = func() { _, _ = io.WriteString(flag.CommandLine.Output(), usage) }
	flag.Parse() // no flags of its own, so that what looks like one is no URI
	if err := train(context.Background(), flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gonative:", err)
		os.Exit(1)
	}
}

// train streams crops of the arrays at uris.
func train(ctx context.Context, uris []string, out io.Writer) (err error) {
	if len(uris) == 0 {
		return errors.New("name at least one array: gonative URI…")
	}
	id, _, err := rank.Detect(os.LookupEnv)
	if err != nil {
		return err
	}
	l, err := open(ctx, id, uris)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for epoch := range int64(epochs) {
		if err := l.SetEpoch(ctx, epoch); err != nil {
			return err
		}
		if err := run(ctx, l, out); err != nil {
			return err
		}
	}
	return nil
}

// open makes the loader: where crops come from, what a batch looks like.
func open(ctx context.Context, id rank.Identity, uris []string) (*loader.Loader, error) {
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
	return loader.New(ctx, id, source, loader.Config{
		BatchSize: batchSize, Shuffle: true,
		Pipeline: pipeline.Config{
			Arrays: refs,
			Fields: []pipeline.Field{{Name: "image", Shape: []int{32, 64, 64}, DType: nd.F32}},
		},
	})
}

// run is one epoch.
func run(ctx context.Context, l *loader.Loader, out io.Writer) error {
	for {
		batch, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		image, meta := batch.Tensor("image"), batch.Meta()
		_, err = fmt.Fprintf(out, "epoch %d step %d: %d crops, mean %.3f\n", meta.Epoch, meta.Step, image.Shape[0], mean(image.Data))
		// From here on the slot belongs to another batch: the data must not be used.
		if err := errors.Join(err, batch.Release(nil)); err != nil {
			return err
		}
	}
}

// mean is the mean of little-endian float32 values.
func mean(data []byte) float64 {
	sum, n := 0.0, len(data)/4
	for i := range n {
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return sum / float64(max(n, 1))
}
