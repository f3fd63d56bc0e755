// Package demo shows the engine at work: it writes small arrays in several codecs
// and streams an epoch of random crops over them, on several ranks.
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

// Progress is told how far a phase is.
type Progress func(phase string, inBytes bool, done, total int64)

// Prepare writes the arrays below root where they are missing.
func Prepare(ctx context.Context, root string, progress Progress) error {
	return dataset.Write(ctx, root, Arrays(), func(done, total int64) { progress("write sample data", true, done, total) })
}

// Part is what one rank has to tell.
type Part struct {
	Rank     int            `json:"rank"`
	Report   loader.Report  `json:"report"`
	Expected string         `json:"expected"` // digest of the whole epoch, from the plan
	Batches  int64          `json:"batches"`
	Bytes    int64          `json:"bytes"` // of the batches
	WallS    float64        `json:"wall_s"`
	Stats    pipeline.Stats `json:"stats"`
}

// Rank streams this rank's part of one epoch of count crops of the arrays below root,
// in f32.
func Rank(ctx context.Context, id rank.Identity, root string, count int64) (*Part, error) {
	source, refs, err := open(ctx, root, Arrays(), count)
	if err != nil {
		return nil, err
	}
	field := pipeline.Field{Name: "image", DType: nd.F32}
	for _, n := range crop() {
		field.Shape = append(field.Shape, int(n))
	}
	l, err := loader.New(ctx, id, source, loader.Config{
		Pipeline:  pipeline.Config{Arrays: refs, Fields: []pipeline.Field{field}},
		BatchSize: batchSize, Seed: seed, Shuffle: true,
	})
	if err != nil {
		return nil, err
	}
	p, err := epoch(ctx, l)
	return p, errors.Join(err, l.Close())
}

// epoch takes all batches of one epoch.
func epoch(ctx context.Context, l *loader.Loader) (*Part, error) {
	p := &Part{Rank: l.Identity().Rank, Expected: l.Expected(0).String()}
	began := time.Now()
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		p.Batches++
		p.Bytes += b.Bytes(0)
		if err := b.Release(nil); err != nil {
			return nil, err
		}
	}
	p.WallS = time.Since(began).Seconds()
	p.Report, _ = l.Report(0)
	p.Stats = l.Stats()
	// The pipeline counts what it planned, and it has begun the next epoch.
	p.Stats.Samples, p.Stats.Batches = p.Report.Delivered, p.Batches
	return p, nil
}

// Result is what the demo has to tell: the sum over its ranks.
type Result struct {
	Arrays      []string `json:"arrays"`
	Ranks       int      `json:"ranks"`
	Samples     int64    `json:"samples"`
	Missing     int64    `json:"missing"` // crops that never came
	Digest      string   `json:"digest"`  // of what came
	Exact       bool     `json:"exact"`   // it is the one that the plan alone gives: each crop came once
	Batches     int64    `json:"batches"` // of a rank
	Bytes       int64    `json:"bytes"`   // of the batches
	WallS       float64  `json:"wall_s"`  // of the slowest rank
	SamplesPerS float64  `json:"samples_per_s"`
	GBPerS      float64  `json:"gb_per_s"`

	Stages []benchmark.Stage `json:"stages"` // of rank 0
	Stats  pipeline.Stats    `json:"-"`
}

// Sum adds up what the ranks have to tell.
func Sum(root string, parts []Part) (*Result, error) {
	r := &Result{Ranks: len(parts)}
	for _, a := range Arrays() {
		r.Arrays = append(r.Arrays, path.Join(root, a.Path))
	}
	reports := make([]loader.Report, len(parts))
	for i, p := range parts {
		reports[i] = p.Report
		r.Bytes += p.Bytes
		r.Batches = max(r.Batches, p.Batches)
		r.WallS = max(r.WallS, p.WallS)
		if p.Rank == 0 {
			r.Stats, r.Stages = p.Stats, benchmark.Stages(p.Stats)
		}
	}
	whole, err := loader.Merge(reports...)
	if err != nil {
		return nil, err
	}
	r.Samples, r.Missing = whole.Delivered, whole.Of-whole.Coverage.Count
	r.Digest = whole.Coverage.String()
	r.Exact = whole.Complete() && len(parts) > 0 && r.Digest == parts[0].Expected
	r.SamplesPerS, r.GBPerS = float64(r.Samples)/r.WallS, float64(r.Bytes)/1e9/r.WallS
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
