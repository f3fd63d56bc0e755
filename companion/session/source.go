package session

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
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
