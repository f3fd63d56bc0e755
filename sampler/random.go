package sampler

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Weight says how often random crops take each group of arrays.
type Weight uint8

const (
	// ByVolume takes a group in proportion to the number of elements in the array
	// of its first field: every place of the data is as likely.
	ByVolume Weight = iota
	// Equal takes all groups alike.
	Equal
)

var weightNames = [...]string{ByVolume: "volume", Equal: "equal"}

// String is the name that ParseWeight reads.
func (w Weight) String() string {
	if int(w) >= len(weightNames) {
		return fmt.Sprintf("Weight(%d)", w)
	}
	return weightNames[w]
}

// ParseWeight reads "volume" or "equal".
func ParseWeight(name string) (Weight, error) {
	for w, known := range weightNames {
		if name == known {
			return Weight(w), nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "weight %q: one of %s", name, strings.Join(weightNames[:], ", "))
}

// RandomCrops are Count crops at random places.
type RandomCrops struct {
	Fields []Field
	Count  int64
	Weight Weight
	Seed   uint64

	// Flips are the axes along which half of the samples are reversed, all fields
	// together; counted from the end as in numpy, -1 is the last axis.
	Flips []int
}

// Random is the source of RandomCrops. Sample i is drawn from the seed and i
// alone, so every epoch has the same crops, in another order.
//
// Fingerprint: kind "random", Count, Weight, Seed, Flips, the fields.
type Random struct {
	config  RandomCrops
	windows *windows
	k0, k1  uint64
	ends    []uint64 // running sum of volumes of the groups, for ByVolume
	print   string
}

// NewRandom checks the config. An array that is smaller than the crop is an
// error of kind nd.ErrShape that names it.
func NewRandom(config RandomCrops) (*Random, error) {
	w, err := newWindows("random crops", config.Fields)
	if err != nil {
		return nil, err
	}
	if wrong := config.check(len(w.shape)); len(wrong) > 0 {
		return nil, nd.Errorf(nd.ErrConfig, "random crops: %s", strings.Join(wrong, "; "))
	}
	for g, extents := range w.groups {
		for axis, n := range extents {
			if n < w.shape[axis] {
				return nil, w.tooSmall(g, axis)
			}
		}
	}
	r := &Random{config: config, windows: w}
	if r.ends, err = volumes(config.Fields[0].Arrays); err != nil {
		return nil, err
	}
	h := newHash("headrace/crops/1")
	h.word(config.Seed)
	sum := h.sum()
	r.k0, r.k1 = binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	r.print = r.fingerprint()
	return r, nil
}

func (c *RandomCrops) check(axes int) (wrong []string) {
	if c.Count < 0 {
		wrong = append(wrong, fmt.Sprintf("Count is %d, must be at least 0", c.Count))
	}
	if int(c.Weight) >= len(weightNames) {
		wrong = append(wrong, fmt.Sprintf("Weight is %d, must be one of %s", c.Weight, strings.Join(weightNames[:], ", ")))
	}
	for i, axis := range c.Flips {
		switch {
		case axis >= 0 || axis < -axes:
			wrong = append(wrong, fmt.Sprintf("flip axis %d: must be -1 (the last axis) to %d", axis, -axes))
		case axis+axes >= 32: // bits of Crop.Flip
			wrong = append(wrong, fmt.Sprintf("flip axis %d: only the first 32 axes can be flipped", axis))
		case slices.Contains(c.Flips[:i], axis):
			wrong = append(wrong, fmt.Sprintf("flip axis %d is given twice", axis))
		}
	}
	return wrong
}

// volumes is the running sum of the arrays' elements.
func volumes(arrays []Array) ([]uint64, error) {
	ends := make([]uint64, len(arrays))
	var total uint64
	for i, a := range arrays {
		n, ok := nd.Product(a.Shape)
		var carry uint64
		if total, carry = bits.Add64(total, uint64(n), 0); !ok || carry != 0 {
			return nil, nd.Errorf(nd.ErrShape, "array %s %v: the number of elements up to here does not fit 64 bits", a.Name, a.Shape)
		}
		ends[i] = total
	}
	return ends, nil
}

func (r *Random) fingerprint() string {
	h := newFingerprint("random")
	h.number(r.config.Count)
	h.text(r.config.Weight.String())
	h.word(r.config.Seed)
	h.number(int64(len(r.config.Flips)))
	for _, axis := range r.config.Flips {
		h.number(int64(axis))
	}
	r.windows.hash(h)
	return h.fingerprint()
}

// Len implements Source.
func (r *Random) Len() int64 { return r.config.Count }

// Fingerprint implements Source.
func (r *Random) Fingerprint() string { return r.print }

// Sample implements Source.
func (r *Random) Sample(i int64) Sample {
	if i < 0 || i >= r.config.Count {
		return Sample{ID: i}
	}
	state := mix(r.k0 + mix(r.k1^uint64(i)))
	next := func() uint64 {
		state += 0x9e3779b97f4a7c15
		return mix(state)
	}
	group := r.group(next)
	w := r.windows
	start := make([]int64, len(w.shape))
	for axis, n := range w.shape {
		start[axis] = int64(below(next, uint64(w.groups[group][axis]-n)+1))
	}
	var flip uint32
	for _, axis := range r.config.Flips {
		flip |= uint32(below(next, 2)) << (axis + len(w.shape))
	}
	return Sample{ID: i, Crops: w.crops(group, start, flip)}
}

func (r *Random) group(next func() uint64) int {
	n := len(r.ends)
	if r.config.Weight == Equal {
		return int(below(next, uint64(n)))
	}
	element := below(next, r.ends[n-1])
	return sort.Search(n, func(g int) bool { return r.ends[g] > element })
}
