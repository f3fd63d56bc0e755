// Package demo shows the engine at work: it writes small arrays in several codecs
// and streams an epoch of random crops over them.
package demo

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/headrace/headrace/internal/benchmark"
	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// The sizes make a demo of a few seconds on two cores.
const (
	batchSize = 16
	seed      = 42
)

func volume() []int64 { return []int64{96, 192, 192} }
func crop() []int64   { return []int64{32, 64, 64} }

// Arrays are the sample data: both formats, with and without shards, five codecs
// and four element types, labels for the images among them.
func Arrays() []dataset.Array {
	chain := func(names ...string) (c scenario.Chain) {
		for _, name := range names {
			c = append(c, scenario.Codec{Name: name})
		}
		return c
	}
	list := []dataset.Array{
		{Path: "sharded-zstd", Format: 3, DType: nd.U16, Field: "lm", Codecs: chain("zstd"), Shard: []int64{96, 96, 96}},
		{Path: "blosc-lz4", Format: 2, DType: nd.I16, Field: "weather", Codecs: chain("blosc-lz4")},
		{Path: "gzip", Format: 3, DType: nd.U8, Field: "em", Codecs: chain("gzip")},
		{Path: "labels", Format: 3, DType: nd.U8, Field: "labels", Codecs: chain("blosc-zstd")},
		{Path: "raw-transposed", Format: 3, DType: nd.F32, Field: "weather", Codecs: chain("transpose", "none")},
	}
	for i := range list {
		a := &list[i]
		a.Shape, a.Chunk, a.Entropy, a.Seed, a.Level = volume(), []int64{32, 48, 48}, 0.5, seed+uint64(i), 3
	}
	return list
}

// Result is what the demo has to tell.
type Result struct {
	Arrays      []string `json:"arrays"`
	Samples     int64    `json:"samples"`
	Missing     int64    `json:"missing"` // crops that never came
	Batches     int64    `json:"batches"`
	Bytes       int64    `json:"bytes"` // of the batches
	WallS       float64  `json:"wall_s"`
	SamplesPerS float64  `json:"samples_per_s"`
	GBPerS      float64  `json:"gb_per_s"`

	Stages []benchmark.Stage `json:"stages"`
	Stats  pipeline.Stats    `json:"-"`
}

// Report is told how far a phase is.
type Report func(phase string, inBytes bool, done, total int64)

// Run writes the arrays below root where they are missing and streams one epoch
// of count crops, in f32.
func Run(ctx context.Context, root string, count int64, report Report) (*Result, error) {
	arrays := Arrays()
	err := dataset.Write(ctx, root, arrays, func(done, total int64) { report("write sample data", true, done, total) })
	if err != nil {
		return nil, err
	}
	source, refs, err := open(ctx, root, arrays, count)
	if err != nil {
		return nil, err
	}
	field := pipeline.Field{Name: "image", DType: nd.F32}
	for _, n := range crop() {
		field.Shape = append(field.Shape, int(n))
	}
	l, err := loader.New(ctx, rank.Single(), source, loader.Config{
		Pipeline:  pipeline.Config{Arrays: refs, Fields: []pipeline.Field{field}},
		BatchSize: batchSize, Seed: seed, Shuffle: true,
	})
	if err != nil {
		return nil, err
	}
	r, err := epoch(ctx, l, count, report)
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		r.Arrays = append(r.Arrays, ref.URI)
	}
	return r, nil
}

// open makes the source of random crops over the arrays.
func open(ctx context.Context, root string, arrays []dataset.Array, count int64) (sampler.Source, []pipeline.ArrayRef, error) {
	var refs []pipeline.ArrayRef
	for i := range arrays {
		refs = append(refs, pipeline.ArrayRef{URI: path.Join(root, arrays[i].Path)})
	}
	known, err := loader.Arrays(ctx, refs...)
	if err != nil {
		return nil, nil, err
	}
	image := sampler.Field{Name: "image", Crop: crop(), Arrays: known}
	source, err := sampler.NewRandom(sampler.RandomCrops{Fields: []sampler.Field{image}, Count: count, Seed: seed})
	return source, refs, err
}

// epoch takes all batches of one epoch and counts what never came.
func epoch(ctx context.Context, l *loader.Loader, count int64, report Report) (*Result, error) {
	r := &Result{}
	seen := make([]bool, count)
	began := time.Now()
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, s := range b.Samples() {
			seen[s.ID] = true
		}
		r.Samples += int64(len(b.Samples()))
		r.Batches++
		r.Bytes += b.Bytes(0)
		if err := b.Release(nil); err != nil {
			return nil, err
		}
		report("stream crops", false, r.Samples, count)
	}
	r.WallS = time.Since(began).Seconds()
	r.SamplesPerS, r.GBPerS = float64(r.Samples)/r.WallS, float64(r.Bytes)/1e9/r.WallS
	r.Stats = l.Stats()
	// The pipeline counts what it planned, and it has begun the next epoch.
	r.Stats.Samples, r.Stats.Batches = r.Samples, r.Batches
	r.Stages = benchmark.Stages(r.Stats)
	for _, there := range seen {
		if !there {
			r.Missing++
		}
	}
	return r, nil
}
