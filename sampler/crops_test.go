package sampler_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// field makes a field over arrays of the given shapes; array i has index
// first+i.
func field(name string, first int, crop []int64, shapes ...[]int64) sampler.Field {
	f := sampler.Field{Name: name, Crop: crop}
	for i, shape := range shapes {
		f.Arrays = append(f.Arrays, sampler.Array{Index: first + i, Name: fmt.Sprintf("%s%d", name, i), Shape: shape, Canonical: []byte("{}")})
	}
	return f
}

func mustRandom(t *testing.T, c sampler.RandomCrops) *sampler.Random {
	t.Helper()
	r, err := sampler.NewRandom(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustGrid(t *testing.T, c sampler.GridCrops) *sampler.Grid {
	t.Helper()
	g, err := sampler.NewGrid(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Every place where the crop fits is as likely as any other, and none other
// comes.
func TestRandomCropsAreUniform(t *testing.T) {
	shape := []int64{7, 5}
	r := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{field("a", 3, []int64{2, 5}, shape)}, Count: 60_000, Seed: 1, Flips: []int{-1}})
	counts := make(map[string]int)
	for i := range r.Len() {
		s := r.Sample(i)
		c := s.Crops[0]
		if s.ID != i || c.Array != 3 || !c.Box.Within(shape) || c.Flip&^2 != 0 {
			t.Fatalf("sample %d: %+v", i, s)
		}
		counts[fmt.Sprint(c.Box, c.Flip)]++
	}
	if len(counts) != 6*2 {
		t.Fatalf("%d different crops, want 6 places, each flipped and not", len(counts))
	}
	for crop, n := range counts {
		if math.Abs(float64(n)-5000) > 300 { // more than 4 standard deviations
			t.Errorf("%s came %d times, want about 5000", crop, n)
		}
	}
}

func TestRandomWeights(t *testing.T) {
	f := field("a", 0, []int64{2}, []int64{2}, []int64{6}, []int64{12})
	share := func(w sampler.Weight) (counts [3]float64) {
		r := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{f}, Count: 20_000, Weight: w})
		for i := range r.Len() {
			counts[r.Sample(i).Crops[0].Array] += 1 / float64(r.Len())
		}
		return counts
	}
	for weight, want := range map[sampler.Weight][3]float64{
		sampler.ByVolume: {0.1, 0.3, 0.6},
		sampler.Equal:    {1. / 3, 1. / 3, 1. / 3},
	} {
		got := share(weight)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.015 {
				t.Errorf("%v: shares %.3f, want %.3f", weight, got, want)
				break
			}
		}
	}
}

// Crops of paired arrays show the same place: shared axes have one start, a
// smaller crop lies in the middle of the larger, an axis that only one field has
// moves alone, and a flip turns both.
func TestFieldsArePaired(t *testing.T) {
	image := field("image", 0, []int64{1, 6, 8}, []int64{3, 20, 30}, []int64{3, 40, 8})
	label := field("label", 10, []int64{2, 8}, []int64{20, 30}, []int64{40, 8})
	channels := make(map[int64]bool)
	check := func(s sampler.Sample) {
		t.Helper()
		im, la := s.Crops[0], s.Crops[1]
		channels[im.Box[0].Start] = true
		if la.Array != im.Array+10 {
			t.Fatalf("arrays %d and %d are not a pair", im.Array, la.Array)
		}
		if la.Box[0].Start != im.Box[1].Start+2 || la.Box[0].Len() != 2 || la.Box[1] != im.Box[2] {
			t.Fatalf("boxes %s and %s", im.Box, la.Box)
		}
		if la.Flip != im.Flip>>1 {
			t.Fatalf("flips %b and %b", im.Flip, la.Flip)
		}
	}
	fields := []sampler.Field{image, label}
	r := mustRandom(t, sampler.RandomCrops{Fields: fields, Count: 500, Flips: []int{-3, -2, -1}})
	for i := range r.Len() {
		check(r.Sample(i))
	}
	if len(channels) != 3 {
		t.Errorf("channels %v, want all of 3", channels)
	}
	g := mustGrid(t, sampler.GridCrops{Fields: fields, Tail: sampler.GridPad})
	for i := range g.Len() {
		check(g.Sample(i))
	}
}

func TestGridPlaces(t *testing.T) {
	f := func(extent, crop, stride int64, tail sampler.GridTail, want ...int64) {
		t.Helper()
		c := sampler.GridCrops{Fields: []sampler.Field{field("a", 0, []int64{crop}, []int64{extent})}, Tail: tail}
		if stride > 0 {
			c.Stride = []int64{stride}
		}
		g := mustGrid(t, c)
		var got []int64
		for i := range g.Len() {
			box := g.Sample(i).Crops[0].Box
			if box[0].Len() != crop {
				t.Errorf("box %s is not %d long", box, crop)
			}
			got = append(got, box[0].Start)
		}
		if !slices.Equal(got, want) {
			t.Errorf("extent %d, crop %d, stride %d, %v: starts %v, want %v", extent, crop, stride, tail, got, want)
		}
	}
	f(10, 4, 0, sampler.GridDrop, 0, 4)
	f(10, 4, 0, sampler.GridShift, 0, 4, 6)
	f(10, 4, 0, sampler.GridPad, 0, 4, 8)
	f(12, 4, 0, sampler.GridDrop, 0, 4, 8)
	f(12, 4, 0, sampler.GridShift, 0, 4, 8)
	f(12, 4, 0, sampler.GridPad, 0, 4, 8)
	f(10, 4, 3, sampler.GridDrop, 0, 3, 6)
	f(11, 4, 3, sampler.GridDrop, 0, 3, 6)
	f(11, 4, 3, sampler.GridShift, 0, 3, 6, 7)
	f(11, 4, 3, sampler.GridPad, 0, 3, 6, 9)
	f(10, 2, 5, sampler.GridDrop, 0, 5)
	f(13, 2, 5, sampler.GridShift, 0, 5, 10, 11)
	f(4, 4, 1, sampler.GridShift, 0)
	f(3, 4, 0, sampler.GridPad, 0)
	// With gaps no crop begins beyond the end.
	f(13, 2, 5, sampler.GridPad, 0, 5, 10)
	f(11, 2, 5, sampler.GridPad, 0, 5, 10)
	f(100, 10, 1000, sampler.GridPad, 0)
	f(100, 10, 1000, sampler.GridShift, 0, 90)
}

// Places at the end of the largest arrays do not overflow; larger ones are refused.
func TestGridOfLargestArrays(t *testing.T) {
	const most = 1 << 61
	for _, tail := range []sampler.GridTail{sampler.GridDrop, sampler.GridShift, sampler.GridPad} {
		for _, c := range [][2]int64{{1 << 40, 1 << 40}, {most, most}, {10, most}, {3, most - 7}, {most - 3, 1 << 59}} {
			crop, stride := c[0], c[1]
			config := sampler.GridCrops{Fields: []sampler.Field{field("a", 0, []int64{crop}, []int64{most})}, Stride: []int64{stride}, Tail: tail}
			g := mustGrid(t, config)
			at := int64(-1)
			for _, i := range []int64{0, g.Len() / 2, g.Len() - 1} {
				s := g.Sample(i).Crops[0].Box[0]
				if s.Start < at || s.Len() != crop || s.Start >= most || tail != sampler.GridPad && s.Stop > most {
					t.Errorf("crop %d, stride %d, %v: crop %d is %v, after %d", crop, stride, tail, i, s, at)
				}
				at = s.Start
			}
			config.Stride[0] = most + 1
			if _, err := sampler.NewGrid(config); !errors.Is(err, nd.ErrConfig) {
				t.Errorf("stride %d: %v, want ErrConfig", config.Stride[0], err)
			}
			config.Stride[0], config.Fields[0].Arrays[0].Shape[0] = stride, most+1
			if _, err := sampler.NewGrid(config); !errors.Is(err, nd.ErrShape) {
				t.Errorf("extent %d: %v, want ErrShape", int64(most+1), err)
			}
		}
	}
}

// A grid of touching crops covers every element: once with GridPad and, where the
// crop divides the array, with all tails.
func TestGridCoversTheArray(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		shape := []int64{1 + r.Int64N(9), 1 + r.Int64N(9)}
		crop := []int64{1 + r.Int64N(4), 1 + r.Int64N(4)}
		g := mustGrid(t, sampler.GridCrops{Fields: []sampler.Field{field("a", 0, crop, shape, shape)}, Tail: sampler.GridPad})
		seen := make(map[string]int)
		for i := range g.Len() {
			s := g.Sample(i)
			if s.ID != i {
				t.Fatalf("sample %d has ID %d", i, s.ID)
			}
			c := s.Crops[0]
			for y := c.Box[0].Start; y < c.Box[0].Stop; y++ {
				for x := c.Box[1].Start; x < c.Box[1].Stop; x++ {
					seen[fmt.Sprint(c.Array, y, x)]++
				}
			}
		}
		for a := range 2 {
			for y := range shape[0] {
				for x := range shape[1] {
					if n := seen[fmt.Sprint(a, y, x)]; n != 1 {
						t.Fatalf("shape %v crop %v: element %d,%d of array %d is in %d crops", shape, crop, y, x, a, n)
					}
				}
			}
		}
	}
}

// Arrays of no axes, and crops of a whole array, are crops like any other.
func TestDegenerateCrops(t *testing.T) {
	scalar := field("a", 0, []int64{}, []int64{}, []int64{})
	if g := mustGrid(t, sampler.GridCrops{Fields: []sampler.Field{scalar}}); g.Len() != 2 || g.Sample(1).Crops[0].Array != 1 {
		t.Errorf("grid over two scalars: %d crops", g.Len())
	}
	r := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{scalar}, Count: 5})
	if c := r.Sample(4).Crops[0]; len(c.Box) != 0 {
		t.Errorf("random crop of a scalar: %+v", c)
	}
	whole := mustRandom(t, sampler.RandomCrops{Fields: []sampler.Field{field("a", 0, []int64{3}, []int64{3})}, Count: 5})
	if c := whole.Sample(4).Crops[0]; c.Box.String() != "0:3" {
		t.Errorf("crop of the whole: %s", c.Box)
	}
	for _, s := range []sampler.Source{whole, mustGrid(t, sampler.GridCrops{Fields: []sampler.Field{scalar}})} {
		for _, i := range []int64{-1, s.Len()} {
			if got := s.Sample(i); got.Crops != nil {
				t.Errorf("sample %d of %d: %+v", i, s.Len(), got)
			}
		}
	}
}

func TestRefusedCrops(t *testing.T) {
	f := func(kind error, err error, says ...string) {
		t.Helper()
		if !errors.Is(err, kind) {
			t.Errorf("got %v, want %v", err, kind)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%v does not say %q", err, s)
			}
		}
	}
	random := func(c sampler.RandomCrops) error { _, err := sampler.NewRandom(c); return err }
	grid := func(c sampler.GridCrops) error { _, err := sampler.NewGrid(c); return err }
	one := func(crop []int64, shapes ...[]int64) []sampler.Field {
		return []sampler.Field{field("image", 0, crop, shapes...)}
	}
	d2 := []int64{4, 4}

	f(nd.ErrShape, random(sampler.RandomCrops{Fields: one(d2, []int64{8, 8}, []int64{8, 3})}), "image1", "[8 3]", "[4 4]")
	f(nd.ErrShape, grid(sampler.GridCrops{Fields: one(d2, []int64{8, 3}), Tail: sampler.GridShift}), "image0")
	f(nd.ErrShape, grid(sampler.GridCrops{Fields: one(d2, []int64{8, 3})}), "no crop", "image0")
	f(nd.ErrShape, random(sampler.RandomCrops{Fields: one(d2, []int64{8})}), "image0", "1 axes")
	f(nd.ErrShape, random(sampler.RandomCrops{Fields: one([]int64{1, 1}, []int64{1 << 32, 1 << 32})}), "image0")
	f(nd.ErrShape, grid(sampler.GridCrops{Fields: one([]int64{1, 1}, []int64{1 << 32, 1 << 32})}), "image0")
	f(nd.ErrShape, random(sampler.RandomCrops{Fields: []sampler.Field{
		field("image", 0, d2, []int64{8, 8}), field("label", 1, d2, []int64{4, 8}),
	}}), "image0", "label0")

	f(nd.ErrConfig, random(sampler.RandomCrops{}), "no field")
	f(nd.ErrConfig, random(sampler.RandomCrops{Fields: []sampler.Field{
		field("image", 0, []int64{0}, []int64{8}, []int64{8}), field("image", 2, []int64{1}, []int64{8}), field("c", 3, []int64{1}),
	}}), "two fields", "below 1", `"image" has 1 arrays`, `"c" has no array`)
	f(nd.ErrConfig, random(sampler.RandomCrops{Fields: []sampler.Field{
		field("image", 0, []int64{5}, []int64{8}), field("label", 1, []int64{2}, []int64{8}),
	}}), "label", "odd")
	f(nd.ErrConfig, random(sampler.RandomCrops{Fields: one(d2, d2), Count: -1, Weight: 9, Flips: []int{0, -3, -1, -1}}),
		"Count", "Weight", "flip axis 0", "flip axis -3", "twice")
	f(nd.ErrConfig, grid(sampler.GridCrops{Fields: one(d2, d2), Stride: []int64{0}, Tail: 9}), "1 axes", "below 1", "Tail")
}

func TestList(t *testing.T) {
	arrays := []sampler.Array{{Index: 4, Name: "a", Shape: []int64{9}}, {Index: 2, Name: "b", Shape: []int64{9, 9}}}
	crop := func(array int, box string) sampler.Crop {
		b, err := nd.ParseBox(box)
		if err != nil {
			t.Fatal(err)
		}
		return sampler.Crop{Array: array, Box: b}
	}
	list := func(samples ...[]sampler.Crop) (*sampler.List, error) {
		return sampler.NewList(sampler.CropList{Arrays: arrays, Samples: samples})
	}
	l, err := list(
		[]sampler.Crop{crop(4, "0:2"), crop(2, "0:1,0:1")},
		[]sampler.Crop{crop(4, "-1:1"), crop(2, "8:9,3:4")})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Sample(1); l.Len() != 2 || s.ID != 1 || s.Crops[0].Box.String() != "-1:1" {
		t.Errorf("%d samples, sample 1 is %+v", l.Len(), s)
	}
	if s := l.Sample(2); s.Crops != nil {
		t.Errorf("beyond the end: %+v", s)
	}
	f := func(want error, samples ...[]sampler.Crop) {
		t.Helper()
		if _, err := list(samples...); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	f(nil)
	f(nd.ErrConfig, []sampler.Crop{crop(0, "0:1")})
	f(nd.ErrShape, []sampler.Crop{crop(4, "0:1,0:1")})
	f(nd.ErrShape, []sampler.Crop{crop(4, "1:1")})
	f(nd.ErrShape, []sampler.Crop{crop(4, "0:1")}, []sampler.Crop{crop(4, "0:2")})
	f(nd.ErrShape, []sampler.Crop{crop(4, "0:1")}, []sampler.Crop{crop(4, "0:1"), crop(4, "0:1")})
	arrays[1].Index = 4
	f(nd.ErrConfig)
}

// Each parameter of a source changes its fingerprint; the place and the name of
// an array do not.
func TestFingerprints(t *testing.T) {
	seen := make(map[string]string)
	add := func(name string, s sampler.Source) string {
		t.Helper()
		f := s.Fingerprint()
		if len(f) != 32 || strings.Trim(f, "0123456789abcdef") != "" {
			t.Errorf("%s: fingerprint %q", name, f)
		}
		if other, twice := seen[f]; twice {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[f] = name
		return f
	}
	fields := func(change func(*sampler.Field)) []sampler.Field {
		f := field("image", 0, []int64{2, 2}, []int64{8, 8}, []int64{8, 8})
		change(&f)
		return []sampler.Field{f}
	}
	same := func(*sampler.Field) {}
	base := sampler.RandomCrops{Fields: fields(same), Count: 10}
	random := func(change func(*sampler.RandomCrops)) sampler.Source {
		c := base
		change(&c)
		return mustRandom(t, c)
	}
	plain := add("base", random(func(*sampler.RandomCrops) {}))
	add("count", random(func(c *sampler.RandomCrops) { c.Count++ }))
	add("seed", random(func(c *sampler.RandomCrops) { c.Seed++ }))
	add("weight", random(func(c *sampler.RandomCrops) { c.Weight = sampler.Equal }))
	add("flips", random(func(c *sampler.RandomCrops) { c.Flips = []int{-1} }))
	for name, change := range map[string]func(*sampler.Field){
		"name":     func(f *sampler.Field) { f.Name = "label" },
		"crop":     func(f *sampler.Field) { f.Crop = []int64{2, 1} },
		"shape":    func(f *sampler.Field) { f.Arrays[0].Shape = []int64{8, 9} },
		"metadata": func(f *sampler.Field) { f.Arrays[1].Canonical = []byte("{ }") },
		"arrays":   func(f *sampler.Field) { f.Arrays = f.Arrays[:1] },
	} {
		add(name, random(func(c *sampler.RandomCrops) { c.Fields = fields(change) }))
	}
	moved := random(func(c *sampler.RandomCrops) {
		c.Fields = fields(func(f *sampler.Field) { f.Arrays[0].Index, f.Arrays[0].Name = 7, "elsewhere" })
	})
	if moved.Fingerprint() != plain {
		t.Error("an array that was moved has another fingerprint")
	}
	add("grid", mustGrid(t, sampler.GridCrops{Fields: fields(same)}))
	add("grid tail", mustGrid(t, sampler.GridCrops{Fields: fields(same), Tail: sampler.GridPad}))
	add("grid stride", mustGrid(t, sampler.GridCrops{Fields: fields(same), Stride: []int64{1, 2}}))
}
