package scenario

import (
	"testing"

	"github.com/headrace/headrace/nd"
)

// The values are those of damacy's own program on its default scenario: equal
// draws are what makes two benchmark runs comparable.
func TestDrawsAreDamacys(t *testing.T) {
	d := NewDraws(1234)
	for i, want := range []uint64{13571057368034195726, 5609927630774915935} {
		if got := d.next(); got != want {
			t.Errorf("output %d: got %d, want %d", i, got, want)
		}
	}

	shapes := make([][]int64, 8)
	for i := range shapes {
		shapes[i] = []int64{512, 512, 512}
	}
	crop := []int64{128, 128, 128}
	want := map[int]struct {
		array  int
		starts [3]int64
	}{
		0:   {6, [3]int64{25, 332, 228}},
		1:   {1, [3]int64{8, 337, 329}},
		2:   {0, [3]int64{68, 32, 165}},
		3:   {0, [3]int64{108, 268, 237}},
		640: {1, [3]int64{371, 183, 183}}, // the first after 5 warm-up batches of 128
	}
	d = NewDraws(1234)
	for i := range 641 {
		array, box := d.Crop(shapes, crop)
		w, ok := want[i]
		if !ok {
			continue
		}
		if array != w.array || box[0].Start != w.starts[0] || box[1].Start != w.starts[1] || box[2].Start != w.starts[2] {
			t.Errorf("sample %d: got array %d box %v, want %v", i, array, box, w)
		}
		if box[2] != (nd.Span{Start: w.starts[2], Stop: w.starts[2] + 128}) {
			t.Errorf("sample %d: span %v is not a crop of 128", i, box[2])
		}
	}
}

// A crop as large as the array still takes its draw, an empty range does not:
// the sequence would shift otherwise.
func TestDrawsOfOne(t *testing.T) {
	d, e := NewDraws(7), NewDraws(7)
	if d.below(1) != 0 || d.state == e.state {
		t.Error("below(1) must draw and give 0")
	}
	before := d.state
	if d.below(0) != 0 || d.state != before {
		t.Error("below(0) must not draw")
	}
	if NewDraws(0).state != 0xdeadbeef {
		t.Error("seed 0 must stand for 0xdeadbeef")
	}
}
