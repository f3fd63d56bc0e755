package sampler

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Array is what a source knows of an array.
type Array struct {
	Index int     // in the pipeline's list: goes to Crop.Array
	Name  string  // for messages
	Shape []int64 // extents

	// Shard is the extents of what lies together in storage: the shards, or the chunks
	// of an array without. Only GridCrops.ByShard wants it.
	Shard []int64

	// Canonical is the canonical metadata of the array (zarr.Array.Canonical). It
	// enters the fingerprint, Index and Name do not.
	Canonical []byte
}

// Field is the crops that become one tensor of a batch.
type Field struct {
	Name string

	// Arrays are the arrays to crop from. Where there are several fields, array j
	// of each belong together, as an image and its labels do: group j.
	Arrays []Array

	// Crop is the shape of a crop, in the axes of the arrays.
	Crop []int64
}

// windows places crops of several fields together. The axes of all fields are
// aligned at the last one, as numpy broadcasts: a label field of (z, y, x) beside
// an image field of (channel, z, y, x) has no channel axis, and shares the others.
// On an axis the arrays of a group must be of one extent, and all fields' crops
// there share one window as long as the longest of them; a shorter crop lies in
// the middle of the window, exactly, so that it stays there under a flip.
type windows struct {
	fields []Field
	shape  []int64   // of the window, one extent per aligned axis
	groups [][]int64 // per group the extents of the arrays on the aligned axes
}

// maxExtent bounds arrays and crops, so that no sum of a place and an extent
// overflows.
const maxExtent = 1 << 61

// newWindows checks the fields of a source. Problems of the config itself are
// reported together as nd.ErrConfig, those of arrays as nd.ErrShape.
func newWindows(kind string, fields []Field) (*windows, error) {
	if wrong := checkFields(fields); len(wrong) > 0 {
		return nil, nd.Errorf(nd.ErrConfig, "%s: %s", kind, strings.Join(wrong, "; "))
	}
	w := &windows{fields: fields, shape: longest(fields)}
	if err := w.checkCentred(kind); err != nil {
		return nil, err
	}
	for j := range fields[0].Arrays {
		extents, err := groupExtents(fields, j, len(w.shape))
		if err != nil {
			return nil, err
		}
		w.groups = append(w.groups, extents)
	}
	return w, nil
}

// longest is the longest crop on each aligned axis.
func longest(fields []Field) []int64 {
	axes := 0
	for _, f := range fields {
		axes = max(axes, len(f.Crop))
	}
	shape := make([]int64, axes)
	for _, f := range fields {
		for i, n := range f.Crop {
			at := axes - len(f.Crop) + i
			shape[at] = max(shape[at], n)
		}
	}
	return shape
}

func (w *windows) checkCentred(kind string) error {
	for _, f := range w.fields {
		for i, n := range f.Crop {
			if long := w.shape[len(w.shape)-len(f.Crop)+i]; (long-n)%2 != 0 {
				return nd.Errorf(nd.ErrConfig, "%s: field %q: crop %v cannot lie in the middle of the window %v: the extents %d and %d differ by an odd number", kind, f.Name, f.Crop, w.shape, n, long)
			}
		}
	}
	return nil
}

func checkFields(fields []Field) (wrong []string) {
	if len(fields) == 0 {
		return []string{"no field: name at least one"}
	}
	names := make(map[string]bool)
	for _, f := range fields {
		if names[f.Name] {
			wrong = append(wrong, fmt.Sprintf("two fields are named %q", f.Name))
		}
		names[f.Name] = true
		if len(f.Arrays) == 0 {
			wrong = append(wrong, fmt.Sprintf("field %q has no array", f.Name))
		} else if n := len(fields[0].Arrays); len(f.Arrays) != n {
			wrong = append(wrong, fmt.Sprintf("field %q has %d arrays, field %q has %d: arrays are paired across fields", f.Name, len(f.Arrays), fields[0].Name, n))
		}
		for _, n := range f.Crop {
			if n < 1 || n > maxExtent {
				wrong = append(wrong, fmt.Sprintf("field %q: crop shape %v has an extent below 1 or above 2^61", f.Name, f.Crop))
				break
			}
		}
	}
	return wrong
}

// groupExtents is the extents of group j on the aligned axes.
func groupExtents(fields []Field, j, axes int) ([]int64, error) {
	extents := make([]int64, axes)
	from := make([]*Array, axes) // whose extent it is
	for _, f := range fields {
		a := &f.Arrays[j]
		if len(a.Shape) != len(f.Crop) {
			return nil, nd.Errorf(nd.ErrShape, "array %s has %d axes %v, the crop of field %q has %d %v", a.Name, len(a.Shape), a.Shape, f.Name, len(f.Crop), f.Crop)
		}
		for i, n := range a.Shape {
			at := axes - len(a.Shape) + i
			if n < 0 || n > maxExtent {
				return nil, nd.Errorf(nd.ErrShape, "array %s %v: an extent is not in 0 to 2^61", a.Name, a.Shape)
			}
			if other := from[at]; other != nil && extents[at] != n {
				return nil, nd.Errorf(nd.ErrShape, "arrays %s %v and %s %v belong together but differ on axis %d from the end: crops of both could not show the same place; list the crops instead",
					other.Name, other.Shape, a.Name, a.Shape, axes-at)
			}
			extents[at], from[at] = n, a
		}
	}
	return extents, nil
}

// owner is the first array of a group that has an aligned axis.
func (w *windows) owner(group, axis int) *Array {
	for _, f := range w.fields {
		if axis >= len(w.shape)-len(f.Crop) {
			return &f.Arrays[group]
		}
	}
	return &w.fields[0].Arrays[group] // not reached: every axis comes from a field
}

// tooSmall is the error for a group in which the window does not fit.
func (w *windows) tooSmall(group, axis int) error {
	a := w.owner(group, axis)
	return nd.Errorf(nd.ErrShape, "array %s %v is smaller than the crop %v: extent %d, wanted at least %d; grid crops with tail \"pad\" and listed crops may reach beyond an array, where a padding is set", a.Name, a.Shape, w.shape, w.groups[group][axis], w.shape[axis])
}

// crops places the window at start within a group, one crop per field. flip has
// a bit per aligned axis.
func (w *windows) crops(group int, start []int64, flip uint32) []Crop {
	crops := make([]Crop, len(w.fields))
	for k, f := range w.fields {
		lead := len(w.shape) - len(f.Crop)
		box := make(nd.Box, len(f.Crop))
		for i, n := range f.Crop {
			first := start[lead+i] + (w.shape[lead+i]-n)/2
			box[i] = nd.Span{Start: first, Stop: first + n}
		}
		crops[k] = Crop{Array: f.Arrays[group].Index, Box: box, Flip: flip >> lead}
	}
	return crops
}

// hash adds the fields to a fingerprint: their number, and for each its name,
// crop shape, number of arrays, and for each array its shape and canonical
// metadata.
func (w *windows) hash(h hasher) {
	h.number(int64(len(w.fields)))
	for _, f := range w.fields {
		h.text(f.Name)
		h.numbers(f.Crop)
		h.number(int64(len(f.Arrays)))
		for _, a := range f.Arrays {
			a.hash(h)
		}
	}
}

func (a *Array) hash(h hasher) {
	h.numbers(a.Shape)
	h.text(string(a.Canonical))
}
