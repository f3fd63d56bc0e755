package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/zarr"
)

// decodable reports whether every codec of an array is known.
func decodable(a *zarr.Array) error {
	for _, level := range a.Levels {
		for _, list := range [][]zarr.Codec{level.Filters, level.Bytes} {
			for _, c := range list {
				if _, err := codec.New(c.Name, c.Config); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// table is the description for people, cells ended by tabs.
func (d *description) table() (rows []byte) {
	row := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			rows = fmt.Appendf(rows, "%s\t%s\n", name, text)
		}
	}
	row(d.Kind, "%s", d.URI)
	if d.Kind != "folder" {
		row("format", "zarr %d", d.ZarrFormat)
	}
	if d.Kind == "array" {
		d.printArray(row)
	}
	row("reads", "%s", verdict(d.Supported, d.Reason))
	for _, note := range d.Notes {
		row("note", "%s", note)
	}
	if len(d.Attrs) > 2 {
		row("attrs", "%s", excerpt(string(d.Attrs)))
	}
	for _, m := range d.Multiscales {
		row("image", "%s", strings.TrimSpace(fmt.Sprintf("%s %s", m.Name, axes(m.Axes))))
		for i, l := range m.Levels {
			row(fmt.Sprintf("  level %d", i), "%s", l.text())
		}
	}
	for _, label := range d.Labels {
		row("label", "%s", label)
	}
	for _, c := range d.Children {
		row("  "+c.Kind, "%s", c.text())
	}
	return rows
}

func (d *description) printArray(row func(name, format string, args ...any)) {
	row("shape", "%s", extents(d.Shape))
	if d.DType != nil {
		row("dtype", "%s", *d.DType)
	}
	if d.Chunks != nil {
		row("chunks", "%s (%d bytes decoded)", extents(d.Chunks), d.ChunkBytes)
	}
	if d.Shards != nil {
		row("shards", "%s", extents(d.Shards))
	}
	var names []string
	for _, c := range d.Codecs {
		names = append(names, strings.TrimSpace(c.Name+" "+compact(c.Config)))
	}
	row("codecs", "%s", strings.Join(names, ", "))
	for i, axis := range d.Order {
		if i != axis {
			row("order", "stored axes are axes %v of the array", d.Order)
			break
		}
	}
	row("fill", "%s", string(d.Fill))
	row("keys", "%s", d.Keys)
	var dims []string
	for _, name := range d.DimensionNames {
		if name == nil {
			dims = append(dims, "-")
		} else {
			dims = append(dims, *name)
		}
	}
	row("axes", "%s", strings.Join(dims, " "))
}

func verdict(supported bool, reason string) string {
	if supported {
		return "yes"
	}
	return "no: " + reason
}

func (c childInfo) text() string {
	if c.Kind == "group" && c.Supported {
		return c.Path
	}
	text := strings.TrimSpace(c.Path + "  " + strings.TrimSpace(extents(c.Shape)+" "+c.DType))
	if !c.Supported {
		text += "  not read: " + c.Reason
	}
	return text
}

// extents is a shape as people write it; "scalar" for no axes.
func extents(shape []int64) string {
	if shape == nil {
		return ""
	}
	if len(shape) == 0 {
		return "scalar"
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, " x ")
}

func axes(list []zarr.Axis) string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	if names == nil {
		return ""
	}
	return "(" + strings.Join(names, " ") + ")"
}

// compact is JSON on one line, "" for none.
func compact(doc json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, doc) != nil {
		return ""
	}
	return b.String()
}

// excerpt keeps long attributes to one line.
func excerpt(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const limit = 160
	if len(text) > limit {
		return text[:limit] + " …"
	}
	return text
}
