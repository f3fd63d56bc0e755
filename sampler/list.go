package sampler

import (
	"slices"

	"github.com/headrace/headrace/nd"
)

// CropList is a source that names every crop.
type CropList struct {
	// Arrays are those that the crops name, by their Index.
	Arrays []Array

	// Samples holds for each sample one crop per field.
	Samples [][]Crop
}

// List is the source of a CropList. The ID of a sample is its index in the list.
//
// Fingerprint: kind "list", the number of samples, for each the number of its
// crops and for each crop the place of its array in Arrays, the start and stop
// of each axis (as a list) and Flip; then the number of arrays, and for each its
// shape and canonical metadata.
type List struct {
	samples [][]Crop
	print   string
}

// NewList checks the list and keeps it; it must not be changed afterwards. Every
// sample has the same number of crops, and the crops of a field are of one
// shape.
func NewList(config CropList) (*List, error) {
	places := make(map[int]int, len(config.Arrays))
	for k, a := range config.Arrays {
		if _, twice := places[a.Index]; twice {
			return nil, nd.Errorf(nd.ErrConfig, "crop list: array index %d is given twice", a.Index)
		}
		places[a.Index] = k
	}
	h := newFingerprint("list")
	h.number(int64(len(config.Samples)))
	for i, crops := range config.Samples {
		if first := config.Samples[0]; len(crops) != len(first) {
			return nil, nd.Errorf(nd.ErrShape, "crop list: sample %d has %d crops, sample 0 has %d: one per field is wanted", i, len(crops), len(first))
		}
		h.number(int64(len(crops)))
		for k, c := range crops {
			if err := config.checkCrop(i, k, places); err != nil {
				return nil, err
			}
			c.hash(h, places[c.Array])
		}
	}
	h.number(int64(len(config.Arrays)))
	for _, a := range config.Arrays {
		a.hash(h)
	}
	return &List{config.Samples, h.fingerprint()}, nil
}

// checkCrop checks crop k of sample i against its array and against the first
// sample.
func (c *CropList) checkCrop(i, k int, places map[int]int) error {
	crop, first := c.Samples[i][k], c.Samples[0][k]
	place, ok := places[crop.Array]
	if !ok {
		return nd.Errorf(nd.ErrConfig, "crop list: sample %d, crop %d: array index %d is not among the arrays", i, k, crop.Array)
	}
	a := &c.Arrays[place]
	if len(crop.Box) != len(a.Shape) {
		return nd.Errorf(nd.ErrShape, "crop list: sample %d, crop %d: box %s has %d axes, array %s has %d", i, k, crop.Box, len(crop.Box), a.Name, len(a.Shape))
	}
	for _, s := range crop.Box {
		if s.Stop <= s.Start {
			return nd.Errorf(nd.ErrShape, "crop list: sample %d, crop %d: box %s is empty", i, k, crop.Box)
		}
	}
	if !slices.Equal(crop.Box.Shape(), first.Box.Shape()) {
		return nd.Errorf(nd.ErrShape, "crop list: sample %d, crop %d: box %s is of another shape than %s of sample 0", i, k, crop.Box, first.Box)
	}
	return nil
}

func (c *Crop) hash(h hasher, array int) {
	h.number(int64(array))
	h.number(2 * int64(len(c.Box)))
	for _, s := range c.Box {
		h.number(s.Start)
		h.number(s.Stop)
	}
	h.word(uint64(c.Flip))
}

// Len implements Source.
func (l *List) Len() int64 { return int64(len(l.samples)) }

// Fingerprint implements Source.
func (l *List) Fingerprint() string { return l.print }

// Sample implements Source. The crops are the list's own and must not be changed.
func (l *List) Sample(i int64) Sample {
	if i < 0 || i >= l.Len() {
		return Sample{ID: i}
	}
	return Sample{ID: i, Crops: l.samples[i]}
}
