package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// sourceSpec is a source of samples as Python describes it.
type sourceSpec struct {
	Kind   string       `json:"kind"` // random, grid, list, table, mix or weighted
	Fields []sourceSpan `json:"fields"`

	Count   int64  `json:"count"` // random, mix, weighted
	Seed    uint64 `json:"seed"`
	Weights string `json:"weights"`
	Flips   []int  `json:"flips"`

	Stride []int64 `json:"stride"` // grid
	Tail   string  `json:"tail"`
	Shards bool    `json:"by_shard"`

	Samples []listedSample `json:"samples"` // list

	Path    string `json:"path"` // table: a file, or the text itself
	Text    string `json:"text"`
	Format  string `json:"format"`  // csv or jsonl
	Outside bool   `json:"outside"` // crops may reach beyond their arrays
	Extra   bool   `json:"extra"`   // names that are not known are passed over

	Parts   []sourcePart `json:"parts"`   // mix, weighted: of one part
	Factors []float64    `json:"factors"` // weighted: of each sample; null are the table's own
}

// sourcePart is a source within another.
type sourcePart struct {
	Source sourceSpec `json:"source"`
	Weight float64    `json:"weight"`
}

// sourceSpan is a field of a source: where it is cropped from.
type sourceSpan struct {
	Name   string   `json:"name"`
	Arrays []string `json:"arrays"` // URIs and glob patterns
	Shape  []int64  `json:"shape"`
}

// listedSample is a sample of a list, a crop for each field.
type listedSample struct {
	Flip  uint32       `json:"flip"`
	Crops []listedCrop `json:"crops"`
}

// listedCrop names an array by its place in the field's list.
type listedCrop struct {
	Array int   `json:"array"`
	Box   spans `json:"box"`
}

// sourceObject is a source with its arrays resolved.
type sourceObject struct {
	source sampler.Source
	arrays []pipeline.ArrayRef
	feeds  [][]int // field by field the arrays that it is cropped from
}

func (o *sourceObject) close() error { return nil }

func (o *sourceObject) about() any {
	return map[string]any{"len": o.source.Len(), "fingerprint": o.source.Fingerprint()}
}

// openSource reads the metadata of the arrays and makes the source.
func openSource(ctx context.Context, request *request) (*sourceObject, error) {
	spec := request.Source
	if spec == nil {
		return nil, nd.Errorf(nd.ErrBug, "the request has no source")
	}
	m := &maker{resolver: resolver{at: request.at, dir: request.Dir, places: map[string]int{}}}
	made, err := m.make(ctx, spec)
	if err != nil {
		return nil, err
	}
	o := &sourceObject{source: made, feeds: m.feeds}
	for _, a := range m.arrays {
		o.arrays = append(o.arrays, pipeline.ArrayRef{URI: request.at(a.Name)})
	}
	return o, nil
}

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

// resolver gives each distinct URI a number and reads its metadata once.
type resolver struct {
	at     func(uri string) string
	dir    string
	arrays []sampler.Array
	places map[string]int
}

func (r *resolver) resolve(ctx context.Context, patterns []string) ([]sampler.Array, error) {
	var list []sampler.Array
	for _, pattern := range patterns {
		uris, err := expand(r.dir, pattern)
		if err != nil {
			return nil, err
		}
		for _, uri := range uris {
			a, err := r.array(ctx, uri)
			if err != nil {
				return nil, err
			}
			list = append(list, a)
		}
	}
	return list, nil
}

func (r *resolver) array(ctx context.Context, uri string) (sampler.Array, error) {
	if i, ok := r.places[uri]; ok {
		return r.arrays[i], nil
	}
	meta, err := pipeline.Metadata(ctx, pipeline.ArrayRef{URI: r.at(uri)})
	if err != nil {
		return sampler.Array{}, err
	}
	a := sampler.Array{Index: len(r.arrays), Name: uri, Shape: meta.Shape, Shard: meta.Levels[0].Chunk, Canonical: meta.Canonical()}
	r.places[uri] = a.Index
	r.arrays = append(r.arrays, a)
	return a, nil
}

// expand lists what a glob pattern matches, sorted; anything else is itself. A
// path that exists is taken literally, whatever its characters. A relative pattern
// is one in dir, and so are its matches.
func expand(dir, pattern string) ([]string, error) {
	if strings.Contains(pattern, "://") || !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}, nil
	}
	prefix := ""
	if dir != "" && !filepath.IsAbs(pattern) {
		prefix = filepath.Clean(dir) + "/"
	}
	if _, err := os.Stat(prefix + pattern); err == nil {
		return []string{pattern}, nil
	}
	found, err := filepath.Glob(literal.Replace(prefix) + pattern)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "pattern %q: %w", pattern, err)
	}
	if len(found) == 0 {
		return nil, nd.Errorf(nd.ErrNotFound, "nothing matches %q: %w", pattern, fs.ErrNotExist)
	}
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], prefix)
	}
	return found, nil
}

// literal makes a pattern that matches a path and nothing else.
var literal = strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)
