package sampler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Limits of a table, unless the config names others: what fits the memory of a
// rank beside its batches, and far above what is written by hand.
const (
	DefaultTableRows  = 1 << 26
	DefaultTableBytes = 8 << 30
)

// TableCrops says how a table of crops is read, by ReadCSV or ReadJSONLines. Each
// row is a sample:
//
//	array   the group of arrays: its number, or the Name of the first field's array
//	start   where the window begins, on each of its axes
//	flip    axes that are reversed, all fields together, counted from the end: -1
//	weight  for Weighted
//
// start must be there, array where there are several groups; without flip nothing
// is reversed. The window has the axes of the field with the most of them and the
// longest crop on each, as for random crops.
type TableCrops struct {
	Fields []Field

	// Outside allows crops that reach beyond their arrays; the fields' padding must
	// allow it too.
	Outside bool
	// Extra passes over names that are not known; without it they are an error, as
	// one of the known may be meant.
	Extra bool

	MaxRows, MaxBytes int64 // 0: the defaults
}

// Table is the source of a table of crops. The ID of a sample is its number among
// the rows.
//
// Fingerprint: kind "table", the number of samples, for each the number of its
// group, the start on each axis (a list) and the flipped axes as bits (the axis
// before the last is bit 1 of two); then the fields. Weights do not enter.
type Table struct {
	windows *windows
	groups  []int32
	starts  []int64 // axes of sample 0, of sample 1, …
	flips   []uint32
	weights []float64 // nil where no row has one
	print   string
}

// tableRow is a row as either format gives it.
type tableRow struct {
	group  int
	start  []int64
	flip   []int64
	weight *float64
}

// tableReader makes a table row by row.
type tableReader struct {
	config TableCrops
	names  map[string]int // of the first field's arrays; -1 for a name of several
	table  *Table
}

func newTableReader(config TableCrops) (*tableReader, error) {
	if config.MaxRows < 0 || config.MaxBytes < 0 {
		return nil, nd.Errorf(nd.ErrConfig, "table: MaxRows is %d and MaxBytes %d, must be at least 0", config.MaxRows, config.MaxBytes)
	}
	if config.MaxRows == 0 {
		config.MaxRows = DefaultTableRows
	}
	if config.MaxBytes == 0 {
		config.MaxBytes = DefaultTableBytes
	}
	w, err := newWindows("table", config.Fields)
	if err != nil {
		return nil, err
	}
	r := &tableReader{config: config, names: map[string]int{}, table: &Table{windows: w}}
	for group, a := range config.Fields[0].Arrays {
		if _, twice := r.names[a.Name]; twice {
			group = -1
		}
		r.names[a.Name] = group
	}
	return r, nil
}

// groupNamed is the group of an array's name, or of its number.
func (r *tableReader) groupNamed(text string) (int, error) {
	if group, ok := r.names[text]; ok {
		if group < 0 {
			return 0, nd.Errorf(nd.ErrCorrupt, "array %q is the name of several: give its number", text)
		}
		return group, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, nd.Errorf(nd.ErrCorrupt, "array %.80q: no array of the first field has this name, and it is no number", text)
	}
	return int(n), nil
}

// add checks a row and takes it in.
func (r *tableReader) add(row tableRow) error {
	t, w := r.table, r.table.windows
	if t.Len() == r.config.MaxRows {
		return nd.Errorf(nd.ErrBudget, "more than %d rows: raise MaxRows", r.config.MaxRows)
	}
	if row.group < 0 || row.group >= len(w.groups) {
		return nd.Errorf(nd.ErrCorrupt, "array %d: there are %d", row.group, len(w.groups))
	}
	if len(row.start) != len(w.shape) {
		return nd.Errorf(nd.ErrCorrupt, "start %v has %d axes, the window %v has %d", row.start, len(row.start), w.shape, len(w.shape))
	}
	for axis, start := range row.start {
		if err := r.checkStart(row.group, axis, start); err != nil {
			return err
		}
	}
	flip, err := flipBits(row.flip, len(w.shape))
	if err != nil {
		return err
	}
	if err := t.addWeight(row.weight); err != nil {
		return err
	}
	t.groups = append(t.groups, int32(row.group))
	t.starts = append(t.starts, row.start...)
	t.flips = append(t.flips, flip)
	return nil
}

func (r *tableReader) checkStart(group, axis int, start int64) error {
	w := r.table.windows
	extent, n := w.groups[group][axis], w.shape[axis]
	if start > math.MaxInt64-n {
		return nd.Errorf(nd.ErrShape, "start %d on axis %d: the crop's end does not fit 63 bits", start, axis)
	}
	if !r.config.Outside && (start < 0 || start+n > extent) {
		a := w.owner(group, axis)
		return nd.Errorf(nd.ErrShape, "start %d on axis %d: a window of %d reaches outside array %s, whose extent is %d; Outside allows it where a padding is set", start, axis, n, a.Name, extent)
	}
	return nil
}

func flipBits(axes []int64, of int) (bits uint32, err error) {
	for _, axis := range axes {
		if axis >= 0 || axis < -int64(of) || axis+int64(of) >= 32 {
			return 0, nd.Errorf(nd.ErrCorrupt, "flip axis %d: must be -1 (the last axis) to %d", axis, -of)
		}
		bit := uint32(1) << (axis + int64(of))
		if bits&bit != 0 {
			return 0, nd.Errorf(nd.ErrCorrupt, "flip axis %d is given twice", axis)
		}
		bits |= bit
	}
	return bits, nil
}

// addWeight takes the weight of the next row; either all rows have one or none.
func (t *Table) addWeight(weight *float64) error {
	if (weight != nil) != (t.weights != nil) && t.Len() > 0 {
		return nd.Errorf(nd.ErrCorrupt, "weight: either every row has one or none has")
	}
	if weight == nil {
		return nil
	}
	if !(*weight >= 0) || math.IsInf(*weight, 1) {
		return nd.Errorf(nd.ErrCorrupt, "weight %v: must be a number of at least 0", *weight)
	}
	t.weights = append(t.weights, *weight)
	return nil
}

func (r *tableReader) finish() *Table {
	t := r.table
	h := newFingerprint("table")
	h.number(t.Len())
	for i := range t.groups {
		h.number(int64(t.groups[i]))
		h.numbers(t.start(int64(i)))
		h.word(uint64(t.flips[i]))
	}
	t.windows.hash(h)
	t.print = h.fingerprint()
	return t
}

func (t *Table) start(i int64) []int64 {
	axes := int64(len(t.windows.shape))
	return t.starts[i*axes : (i+1)*axes : (i+1)*axes]
}

// Len implements Source.
func (t *Table) Len() int64 { return int64(len(t.groups)) }

// Fingerprint implements Source.
func (t *Table) Fingerprint() string { return t.print }

// Weights is the weight of each sample, nil if the table has none. It must not be
// changed.
func (t *Table) Weights() []float64 { return t.weights }

// Sample implements Source.
func (t *Table) Sample(i int64) Sample {
	if i < 0 || i >= t.Len() {
		return Sample{ID: i}
	}
	return Sample{ID: i, Crops: t.windows.crops(int(t.groups[i]), t.start(i), t.flips[i])}
}

// atLine names the line of a row's error and keeps its kind.
func atLine(line int64, err error) error {
	kind, text := nd.ErrCorrupt, err.Error()
	if e, ok := errors.AsType[*nd.Error](err); ok {
		kind, text = e.Kind, e.Detail
	}
	return nd.Errorf(kind, "table: line %d: %s", line, text)
}

// unknownNames is the error for names that no row has.
func unknownNames(names []string) error {
	sort.Strings(names)
	return nd.Errorf(nd.ErrCorrupt, "unknown names %.200s: known are array, start, flip and weight; Extra passes over others", strings.Join(slices.Compact(names), ", "))
}

// integers reads numbers with space between.
func integers(name, text string) ([]int64, error) {
	var list []int64
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s %.80q is not a list of numbers", name, text)
		}
		list = append(list, n)
	}
	return list, nil
}
