package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// maker makes a source, and those that it is made of. They share one list of arrays.
type maker struct {
	resolver
	feeds [][]int // field by field the arrays that it is cropped from
}

func (m *maker) make(ctx context.Context, s *sourceSpec) (sampler.Source, error) {
	if s.Kind == "mix" || s.Kind == "weighted" {
		return m.combine(ctx, s)
	}
	fields := make([]sampler.Field, len(s.Fields))
	for i, f := range s.Fields {
		arrays, err := m.resolve(ctx, f.Arrays)
		if err != nil {
			return nil, err
		}
		fields[i] = sampler.Field{Name: f.Name, Crop: f.Shape, Arrays: arrays}
		m.feed(i, arrays)
	}
	switch s.Kind {
	case "random":
		weight, err := sampler.ParseWeight(s.Weights)
		if err != nil {
			return nil, err
		}
		return made(sampler.NewRandom(sampler.RandomCrops{Fields: fields, Count: s.Count, Weight: weight, Seed: s.Seed, Flips: s.Flips}))
	case "grid":
		tail, err := sampler.ParseGridTail(s.Tail)
		if err != nil {
			return nil, err
		}
		return made(sampler.NewGrid(sampler.GridCrops{Fields: fields, Stride: s.Stride, Tail: tail, ByShard: s.Shards}))
	case "list":
		return made(sampler.NewList(sampler.CropList{Arrays: distinct(fields), Samples: s.crops(fields)}))
	case "table":
		return made(m.table(s, fields))
	}
	return nil, nd.Errorf(nd.ErrBug, "there is no source of kind %q", s.Kind)
}

// made is a source, or the error in its place.
func made[T sampler.Source](source T, err error) (sampler.Source, error) {
	if err != nil {
		return nil, err
	}
	return source, nil
}

// feed notes the arrays of a field.
func (m *maker) feed(field int, arrays []sampler.Array) {
	for len(m.feeds) <= field {
		m.feeds = append(m.feeds, nil)
	}
	for _, a := range arrays {
		// What was given twice, or by two sources of a mix, stands twice: settings with an
		// entry for each array count them like this.
		m.feeds[field] = append(m.feeds[field], a.Index)
	}
}

// distinct lists the arrays of all fields, each once.
func distinct(fields []sampler.Field) (all []sampler.Array) {
	for _, f := range fields {
		for _, a := range f.Arrays {
			if !slices.ContainsFunc(all, func(known sampler.Array) bool { return known.Index == a.Index }) {
				all = append(all, a)
			}
		}
	}
	return all
}

// combine makes a source of others.
func (m *maker) combine(ctx context.Context, s *sourceSpec) (sampler.Source, error) {
	mix := sampler.MixedSources{Count: s.Count, Seed: s.Seed}
	for i := range s.Parts {
		part, err := m.make(ctx, &s.Parts[i].Source)
		if err != nil {
			return nil, err
		}
		mix.Parts = append(mix.Parts, sampler.MixPart{Source: part, Weight: s.Parts[i].Weight})
	}
	if s.Kind == "mix" {
		return made(sampler.NewMix(mix))
	}
	if len(mix.Parts) != 1 {
		return nil, nd.Errorf(nd.ErrBug, "weights of %d sources", len(mix.Parts))
	}
	base, weights := mix.Parts[0].Source, s.Factors
	if table, ok := base.(*sampler.Table); ok && weights == nil {
		weights = table.Weights()
	}
	if weights == nil {
		return nil, nd.Errorf(nd.ErrConfig, "weights are not given, and the crops are no table with a column of them")
	}
	return made(sampler.NewWeighted(sampler.WeightedSamples{Source: base, Weights: weights, Count: s.Count, Seed: s.Seed}))
}

// table reads a table of crops, from a file or from the text that came along.
func (m *maker) table(s *sourceSpec, fields []sampler.Field) (*sampler.Table, error) {
	c := sampler.TableCrops{Fields: fields, Outside: s.Outside, Extra: s.Extra}
	var rows io.Reader = strings.NewReader(s.Text)
	if s.Path != "" {
		file, err := os.Open(m.at(s.Path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nd.Errorf(nd.ErrNotFound, "table: %w", err)
		case err != nil:
			return nil, nd.Errorf(nd.ErrIO, "table: %w", err)
		}
		defer file.Close() //nolint:errcheck // it was only read
		rows = file
	}
	read := sampler.ReadCSV
	if s.Format == "jsonl" {
		read = sampler.ReadJSONLines
	}
	table, err := read(rows, c)
	if err != nil && s.Path != "" {
		return nil, nd.At(err, nd.Place{File: s.Path})
	}
	return table, err
}

func (s *sourceSpec) crops(fields []sampler.Field) [][]sampler.Crop {
	all := make([][]sampler.Crop, len(s.Samples))
	for i, sample := range s.Samples {
		all[i] = make([]sampler.Crop, len(sample.Crops))
		for f, c := range sample.Crops {
			all[i][f] = sampler.Crop{Array: fields[f].Arrays[c.Array].Index, Box: c.Box.box(), Flip: sample.Flip}
		}
	}
	return all
}

// origins tells where samples of an epoch are from: the part of a mix, 0 elsewhere,
// and the index within it.
func origins(source sampler.Source, epoch int64, ids []int64) [][2]int64 {
	now := sampler.InEpoch(source, epoch)
	all := make([][2]int64, len(ids))
	for k, id := range ids {
		switch s := now.(type) {
		case *sampler.Mix:
			part, index := s.Origin(id)
			all[k] = [2]int64{int64(part), index}
		case *sampler.Weighted:
			all[k] = [2]int64{0, s.Origin(id)}
		default:
			all[k] = [2]int64{0, id}
		}
	}
	return all
}
