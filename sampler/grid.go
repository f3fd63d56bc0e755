package sampler

import (
	"fmt"
	"sort"
	"strings"

	"github.com/headrace/headrace/nd"
)

// GridTail says what a grid does where the array does not end with a crop.
type GridTail uint8

const (
	// GridDrop takes only the crops that lie whole in the array.
	GridDrop GridTail = iota
	// GridShift moves the last crop of an axis back inside, over its neighbour.
	GridShift
	// GridPad lets the last crop of an axis reach beyond the end, but not begin there;
	// the field's padding must allow it.
	GridPad
)

var gridTailNames = [...]string{GridDrop: "drop", GridShift: "shift", GridPad: "pad"}

// String is the name that ParseGridTail reads.
func (t GridTail) String() string {
	if int(t) >= len(gridTailNames) {
		return fmt.Sprintf("GridTail(%d)", t)
	}
	return gridTailNames[t]
}

// ParseGridTail reads "drop", "shift" or "pad".
func ParseGridTail(name string) (GridTail, error) {
	for t, known := range gridTailNames {
		if name == known {
			return GridTail(t), nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "grid tail %q: one of %s", name, strings.Join(gridTailNames[:], ", "))
}

// GridCrops are all crops on a regular grid over every group of arrays: group by
// group, within each in C order.
type GridCrops struct {
	Fields []Field

	// Stride is the distance between crops on each axis of the window, which has
	// the axes of the field with the most of them. nil is the shape of the window:
	// the crops touch.
	Stride []int64
	Tail   GridTail

	// ByShard lists the crops shard by shard, so that they come in blocks for a
	// Stream with Blocks: group by group, the shards of the first field's array in C
	// order, and within a shard the crops that begin there in C order. The arrays of
	// that field must have a Shard.
	ByShard bool
}

// Grid is the source of GridCrops.
//
// Fingerprint: kind "grid", Stride, Tail, the fields. With ByShard: kind "grid by
// shard", Stride, Tail, the fields, and the Shard (a list) of each array of the
// first field.
type Grid struct {
	windows *windows
	stride  []int64
	tail    GridTail
	counts  [][]int64  // per group the number of crops on each axis
	ends    []int64    // running sum of the groups' crops
	shards  *shardGrid // nil without ByShard
	print   string
}

// NewGrid checks the config and counts the crops. A grid of no crop at all, and
// with GridShift any array that is smaller than the crop, is an error of kind
// nd.ErrShape.
func NewGrid(config GridCrops) (*Grid, error) {
	w, err := newWindows("grid crops", config.Fields)
	if err != nil {
		return nil, err
	}
	g := &Grid{windows: w, stride: config.Stride, tail: config.Tail}
	if g.stride == nil {
		g.stride = w.shape
	}
	if wrong := g.check(); len(wrong) > 0 {
		return nil, nd.Errorf(nd.ErrConfig, "grid crops: %s", strings.Join(wrong, "; "))
	}
	if err := g.count(); err != nil {
		return nil, err
	}
	if config.ByShard {
		if g.shards, err = newShardGrid(g); err != nil {
			return nil, err
		}
	}
	g.print = g.fingerprint()
	return g, nil
}

func (g *Grid) fingerprint() string {
	kind := "grid"
	if g.shards != nil {
		kind = "grid by shard"
	}
	h := newFingerprint(kind)
	h.numbers(g.stride)
	h.text(g.tail.String())
	g.windows.hash(h)
	if g.shards != nil {
		for _, a := range g.windows.fields[0].Arrays {
			h.numbers(a.Shard)
		}
	}
	return h.fingerprint()
}

func (g *Grid) check() (wrong []string) {
	if len(g.stride) != len(g.windows.shape) {
		wrong = append(wrong, fmt.Sprintf("Stride %v has %d axes, the window %v has %d", g.stride, len(g.stride), g.windows.shape, len(g.windows.shape)))
	}
	for _, n := range g.stride {
		if n < 1 || n > maxExtent {
			wrong = append(wrong, fmt.Sprintf("Stride %v has an extent below 1 or above 2^61", g.stride))
			break
		}
	}
	if int(g.tail) >= len(gridTailNames) {
		wrong = append(wrong, fmt.Sprintf("Tail is %d, must be one of %s", g.tail, strings.Join(gridTailNames[:], ", ")))
	}
	return wrong
}

func (g *Grid) count() error {
	w := g.windows
	var total int64
	for group, extents := range w.groups {
		counts := make([]int64, len(extents))
		for axis, n := range extents {
			if g.tail == GridShift && n < w.shape[axis] {
				return w.tooSmall(group, axis)
			}
			counts[axis] = g.along(n, w.shape[axis], g.stride[axis])
		}
		n, ok := nd.Product(counts)
		if total += n; !ok || total < 0 {
			a := w.owner(group, 0)
			return nd.Errorf(nd.ErrShape, "array %s %v: the number of crops up to here does not fit 63 bits", a.Name, a.Shape)
		}
		g.counts = append(g.counts, counts)
		g.ends = append(g.ends, total)
	}
	if total == 0 {
		a := w.owner(0, 0)
		return nd.Errorf(nd.ErrShape, "no crop %v fits in any array; the first is %s %v", w.shape, a.Name, a.Shape)
	}
	return nil
}

// along is the number of crops on one axis.
func (g *Grid) along(extent, crop, stride int64) int64 {
	switch {
	case extent <= 0, g.tail == GridDrop && extent < crop:
		return 0
	case extent <= crop:
		return 1
	case g.tail == GridDrop:
		return (extent-crop)/stride + 1
	}
	n := (extent-crop-1)/stride + 2
	if g.tail == GridPad { // with gaps between the crops the last might begin beyond the end
		n = min(n, (extent-1)/stride+1)
	}
	return n
}

// Len implements Source.
func (g *Grid) Len() int64 { return g.ends[len(g.ends)-1] }

// Fingerprint implements Source.
func (g *Grid) Fingerprint() string { return g.print }

// Blocks implements Blocked: the crops of a shard are a block. It is nil without
// ByShard.
func (g *Grid) Blocks() *Blocks {
	if g.shards == nil {
		return nil
	}
	return g.shards.blocks
}

// Sample implements Source.
func (g *Grid) Sample(i int64) Sample {
	if i < 0 || i >= g.Len() {
		return Sample{ID: i}
	}
	group, start := g.crop(i)
	for axis, k := range start {
		start[axis] = g.start(group, axis, k)
	}
	return Sample{ID: i, Crops: g.windows.crops(group, start, 0)}
}

// crop is the group of sample i, and which crop it is on each axis.
func (g *Grid) crop(i int64) (group int, index []int64) {
	if g.shards != nil {
		return g.shards.crop(i)
	}
	group = sort.Search(len(g.ends), func(k int) bool { return g.ends[k] > i })
	rest := i
	if group > 0 {
		rest -= g.ends[group-1]
	}
	index = make([]int64, len(g.windows.shape))
	for axis := len(index) - 1; axis >= 0; axis-- {
		n := g.counts[group][axis]
		index[axis] = rest % n
		rest /= n
	}
	return group, index
}

// start is where crop k of an axis begins.
func (g *Grid) start(group, axis int, k int64) int64 {
	start := k * g.stride[axis]
	if g.tail == GridShift {
		start = min(start, g.windows.groups[group][axis]-g.windows.shape[axis])
	}
	return start
}
