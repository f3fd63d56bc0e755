package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/zarr"
)

func (a *app) info() *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:   "info URI",
		Short: "Show an array or a group, and whether headrace reads it",
		Long: `Show the metadata and layout of an array, and whether headrace reads it and if not
why. Of a group, show its arrays, groups and OME-Zarr images; of a folder that is
neither, the arrays and groups directly below it.`,
		Example: "  headrace info data/smoke/z000/scale0/image\n  headrace info image.zarr --level 1 --json",
		Args:    exactly("URI"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			n, err := inspect(cmd.Context(), args[0], level)
			if errors.Is(err, nd.ErrNotFound) && level == "" {
				// What was tried stays the answer where there is nothing below either.
				if folder, e := pipeline.InspectFolder(cmd.Context(), args[0]); e == nil {
					n, err = folder, nil
				}
			}
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.Close()) }()
			d := describe(cmd.Context(), args[0], level, n)
			if a.json {
				return a.printJSON(d)
			}
			return a.printTable(d.table())
		},
	}
	cmd.Flags().StringVar(&level, "level", "", "level of an OME-Zarr image, by number or path")
	return cmd
}

// description is what info prints. The first block is there for arrays and, with
// null values, for groups; its names are a promise to scripts.
type description struct {
	URI        string `json:"uri"`
	Kind       string `json:"kind"` // array, group, or folder: neither, with some of them below
	ZarrFormat int    `json:"zarr_format"`
	Supported  bool   `json:"supported"`
	Reason     string `json:"reason"` // why not, "" if supported

	Shape          []int64         `json:"shape"`
	DType          *string         `json:"dtype"`
	Chunks         []int64         `json:"chunks"`
	Shards         []int64         `json:"shards"`
	Codecs         []codecInfo     `json:"codecs"`
	Fill           json.RawMessage `json:"fill"`
	Attrs          json.RawMessage `json:"attrs"`
	DimensionNames []*string       `json:"dimension_names"`
	Order          []int           `json:"order"` // stored axis i is axis order[i] of the array
	Keys           string          `json:"keys,omitempty"`
	ChunkBytes     int64           `json:"chunk_bytes,omitempty"`
	Notes          []string        `json:"notes"`

	Multiscales []imageInfo `json:"multiscales,omitempty"`
	Labels      []string    `json:"labels,omitempty"`
	Children    []childInfo `json:"children,omitempty"`
}

// codecInfo is one codec in the order of encoding. Those of an inner chunk come
// before those around its shard.
type codecInfo struct {
	Name   string          `json:"name"`
	Config json.RawMessage `json:"configuration,omitempty"`
	Of     string          `json:"of"` // chunk or shard
}

type imageInfo struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Axes    []zarr.Axis `json:"axes"`
	Levels  []levelInfo `json:"levels"`
}

type levelInfo struct {
	childInfo
	Scale       []float64 `json:"scale"`
	Translation []float64 `json:"translation"`
}

// childInfo is a node in a list.
type childInfo struct {
	Path      string  `json:"path"`
	Kind      string  `json:"kind"`
	Shape     []int64 `json:"shape,omitempty"`
	DType     string  `json:"dtype,omitempty"`
	Chunks    []int64 `json:"chunks,omitempty"`
	Supported bool    `json:"supported"`
	Reason    string  `json:"reason,omitempty"`
}

func describe(ctx context.Context, uri, level string, n *pipeline.Node) *description {
	d := &description{URI: uri, Kind: "array", ZarrFormat: 2, Notes: append([]string{}, n.Notes...)}
	if n.Name == "zarr.json" {
		d.ZarrFormat = 3
	}
	d.fromDocument(n.Document)
	err := n.Err
	switch {
	case n.Document == nil && n.Group == nil && n.Array == nil && n.Err == nil:
		d.Kind, d.ZarrFormat = "folder", 0
		d.fromGroup(ctx, n)
		err = errors.New("no array and no group itself: name one of those below it")
	case n.Group != nil:
		d.Kind, d.ZarrFormat, d.Attrs = "group", n.Group.Format, n.Group.Attributes
		d.fromGroup(ctx, n)
	case n.Array != nil:
		d.fromArray(n.Array)
		err = errors.Join(err, readable(ctx, uri, level, n.Array))
	}
	d.Supported = err == nil
	if err != nil {
		d.Reason = oneLine(err.Error())
	}
	return d
}

// readable asks the engine itself: it opens the array for a crop of one element.
func readable(ctx context.Context, uri, level string, array *zarr.Array) error {
	shape := make([]int, len(array.Shape))
	for i := range shape {
		shape[i] = 1
	}
	p, err := pipeline.Open(ctx, pipeline.Config{
		Arrays:    []pipeline.ArrayRef{{URI: uri, Level: level}},
		Fields:    []pipeline.Field{{Name: "crop", Shape: shape}},
		BatchSize: 1, Device: "cpu",
	})
	if err != nil {
		return err
	}
	return p.Close()
}

func (d *description) fromArray(a *zarr.Array) {
	d.ZarrFormat, d.Shape, d.Attrs = a.Format, a.Shape, a.Attributes
	d.DType = &a.DType.Name
	d.Chunks = a.ChunkShape()
	d.Shards = nil
	if len(a.Levels) > 1 {
		d.Shards = a.Levels[0].Chunk
	}
	d.Keys, d.ChunkBytes = a.Keys.String(), a.ChunkBytes()
	d.Order = a.Leaf().Order
	if d.Order == nil {
		d.Order = make([]int, len(a.Shape))
		for i := range d.Order {
			d.Order[i] = i
		}
	}
	for i := range a.DimensionNames {
		name := &a.DimensionNames[i]
		if *name == "" {
			name = nil
		}
		d.DimensionNames = append(d.DimensionNames, name)
	}
	d.Notes = append(d.Notes, a.Notes...)
	d.Codecs = codecsOf(a)
}

func codecsOf(a *zarr.Array) []codecInfo {
	list := []codecInfo{}
	add := func(of string, codecs []zarr.Codec) {
		for _, c := range codecs {
			list = append(list, codecInfo{c.Name, c.Config, of})
		}
	}
	add("chunk", a.Leaf().Filters)
	if a.Format == 3 {
		endian := `{"endian":"little"}`
		if a.Leaf().Big {
			endian = `{"endian":"big"}`
		}
		list = append(list, codecInfo{"bytes", json.RawMessage(endian), "chunk"})
	}
	add("chunk", a.Leaf().Bytes)
	for i := len(a.Levels) - 2; i >= 0; i-- {
		list = append(list, codecInfo{"sharding_indexed", nil, "shard"})
		add("shard", a.Levels[i].Bytes)
	}
	return list
}

// fromDocument takes what it can from the stored document, which may be of an
// array that is not read.
func (d *description) fromDocument(doc json.RawMessage) {
	var raw struct {
		ZarrFormat int             `json:"zarr_format"`
		Shape      []int64         `json:"shape"`
		DataType   json.RawMessage `json:"data_type"`
		DType      json.RawMessage `json:"dtype"`
		Fill       json.RawMessage `json:"fill_value"`
		Attrs      json.RawMessage `json:"attributes"`
		Chunks     []int64         `json:"chunks"`
	}
	if err := json.Unmarshal(doc, &raw); err != nil && raw.ZarrFormat == 0 {
		return // the reason says that it is no JSON
	}
	d.ZarrFormat, d.Shape, d.Chunks, d.Fill, d.Attrs = raw.ZarrFormat, raw.Shape, raw.Chunks, raw.Fill, raw.Attrs
	for _, name := range []json.RawMessage{raw.DType, raw.DataType} {
		if name != nil {
			var text string
			if json.Unmarshal(name, &text) != nil {
				text = string(name)
			}
			d.DType = &text
		}
	}
}

func (d *description) fromGroup(ctx context.Context, n *pipeline.Node) {
	d.Labels = n.Labels
	for _, m := range n.Multiscales {
		image := imageInfo{Name: m.Name, Version: m.Version, Axes: m.Axes}
		for _, l := range m.Levels {
			image.Levels = append(image.Levels, levelInfo{levelChild(ctx, n, l.Path), l.Scale, l.Translation})
		}
		d.Multiscales = append(d.Multiscales, image)
	}
	for _, c := range n.Children {
		d.Children = append(d.Children, childOf(c.Path, c.Group, c.Array, c.Err))
	}
}

// levelChild looks at a level of an image. The store stays open: it is the
// group's.
func levelChild(ctx context.Context, n *pipeline.Node, path string) childInfo {
	at, err := pipeline.InspectStore(ctx, n.Store, path)
	if err != nil {
		return childOf(path, false, nil, err)
	}
	return childOf(path, at.Group != nil, at.Array, at.Err)
}

func childOf(path string, group bool, a *zarr.Array, err error) childInfo {
	c := childInfo{Path: path, Kind: "array"}
	if group {
		c.Kind = "group"
	}
	if a != nil {
		c.Shape, c.DType, c.Chunks = a.Shape, a.DType.Name, a.ChunkShape()
		err = errors.Join(err, decodable(a))
	}
	c.Supported = err == nil
	if e, ok := errors.AsType[*nd.Error](err); ok {
		c.Reason = e.Detail // its place is the line it stands on
	} else if err != nil {
		c.Reason = oneLine(err.Error())
	}
	return c
}
