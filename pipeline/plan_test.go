package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/zarr"
)

// planned is an array and a field without any data: planning needs no more.
type planned struct {
	layout *arrayLayout
	field  *fieldLayout
}

func newPlanned(t testing.TB, l layout, f *fieldLayout) planned {
	t.Helper()
	a, err := zarr.ParseArray(l.metadata())
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile("mem", a, true)
	if err != nil {
		t.Fatal(err)
	}
	return planned{newArrayLayout("mem", a, r), f}
}

// The golden script shows, for one crop a case, which chunks are needed and what
// each job copies.
func TestPlanScript(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		l := layout{dtype: nd.U16, codec: "zstd"}
		f := &fieldLayout{}
		var box nd.Box
		var flip uint32
		for _, arg := range d.CmdArgs {
			text := strings.Join(arg.Vals, ",")
			var err error
			switch arg.Key {
			case "shape":
				l.shape = ints(t, text)
			case "chunk":
				l.chunk = ints(t, text)
			case "shard":
				l.shard = ints(t, text)
			case "order":
				for _, x := range ints(t, text) {
					l.order = append(l.order, int(x))
				}
			case "raw":
				l.codec = ""
			case "box":
				box, err = nd.ParseBox(text)
			case "pad":
				f.pad, err = ParsePad(text)
			case "flip":
				flip = uint32(ints(t, text)[0])
			default:
				t.Fatalf("unknown argument %q", arg.Key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range box {
			f.crop = append(f.crop, int(s.Len()))
		}
		x := newPlanned(t, l, f)
		var p plan
		if err := p.add(x.layout, 0, 0, f, &sampler.Crop{Box: box, Flip: flip}); err != nil {
			return err.Error() + "\n"
		}
		return p.describe(x.layout)
	})
}

// describe writes a plan the way the golden script shows it.
func (p *plan) describe(l *arrayLayout) string {
	var b strings.Builder
	job := func(j *job) {
		for _, x := range p.axes[j.axes : j.axes+j.rank] {
			fmt.Fprintf(&b, "  %d<-%d n=%d step=%d", x.dst, x.src, x.n, x.step)
		}
		b.WriteByte('\n')
	}
	for _, c := range p.chunks {
		fmt.Fprintf(&b, "chunk %s: entry %d of object %s", coordinates(l.coordinate(len(l.meta.Levels)-1, c.leaf)), c.entry, coordinates(l.coordinate(l.holder, c.holder)))
		if c.hi != 0 {
			fmt.Fprintf(&b, " bytes %d:%d", c.lo, c.hi)
		}
		job(&p.jobs[c.firstJob])
	}
	for i := range p.jobs {
		if p.jobs[i].chunk < 0 {
			b.WriteString("padding:")
			job(&p.jobs[i])
		}
	}
	return b.String()
}

func ints(t testing.TB, text string) []int64 {
	t.Helper()
	var list []int64
	for part := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

// The jobs of a crop write every element exactly once, from indices inside their
// chunk; every chunk has the numbers that package zarr gives it; and without
// padding the chunks are those that the box touches.
func TestPlanCoversTheCropOnce(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		checkPlan(t, r, r.IntN(4))
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), uint8(2))
	f.Add(uint64(77), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, rank uint8) {
		checkPlan(t, rand.New(rand.NewPCG(seed, uint64(rank))), int(rank%5))
	})
}

func checkPlan(t *testing.T, r *rand.Rand, rank int) {
	t.Helper()
	l := randomLayout(r, rank)
	if r.IntN(3) == 0 && rank > 0 { // large enough to be read in part when raw
		l.chunk[0] = 40000
		l.shape[0] = 90000
		l.shard = nil
	}
	f := &fieldLayout{pad: Pad(r.IntN(4)), crop: []int{}}
	for _, n := range l.shape {
		f.crop = append(f.crop, 1+r.IntN(int(min(n, 20))))
	}
	x := newPlanned(t, l, f)
	crop := &sampler.Crop{Box: randomBox(r, l.shape, f.crop, f.pad != PadError), Flip: uint32(r.IntN(1 << rank))}
	var p plan
	if err := p.add(x.layout, 0, 0, f, crop); err != nil {
		t.Fatalf("layout %+v crop %+v: %v", l, crop, err)
	}
	p.checkNumbers(t, x.layout)
	p.checkCover(t, x, rank)
	if f.pad == PadError {
		p.checkTouched(t, x.layout, crop.Box)
	}
}

func (p *plan) checkNumbers(t *testing.T, l *arrayLayout) {
	t.Helper()
	for _, c := range p.chunks {
		leaf := len(l.meta.Levels) - 1
		coord := l.coordinate(leaf, c.leaf)
		if leaf == 0 {
			if c.entry != 0 || c.holder != c.leaf {
				t.Fatalf("chunk %v: entry %d of object %d", coord, c.entry, c.holder)
			}
			continue
		}
		up, within := l.parent(leaf, coord)
		if up != c.holder || within != c.entry {
			t.Fatalf("chunk %v: entry %d of object %d, zarr says %d of %d", coord, c.entry, c.holder, within, up)
		}
	}
}

func (p *plan) checkCover(t *testing.T, x planned, rank int) {
	t.Helper()
	extents := make([]int64, rank)
	for i, n := range x.field.crop {
		extents[i] = int64(n)
	}
	total, _ := nd.Product(extents)
	written := make([]int, total)
	for i := range p.jobs {
		j := &p.jobs[i]
		axes := p.axes[j.axes : j.axes+j.rank]
		n := make([]int64, rank)
		for a := range axes {
			n[a] = int64(axes[a].n)
		}
		eachCoord(n, func(at []int64) {
			off := int64(0)
			for a, y := range axes {
				off = off*extents[a] + int64(y.dst) + at[a]
				src := int64(y.src) + at[a]*int64(y.step)
				if j.chunk >= 0 && (src < 0 || src >= x.layout.chunk[a]) {
					t.Fatalf("job reads index %d of a chunk of %d", src, x.layout.chunk[a])
				}
			}
			written[off]++
		})
		if j.chunk >= 0 {
			p.checkHull(t, x.layout, j, axes)
		}
	}
	for i, n := range written {
		if n != 1 {
			t.Fatalf("element %d of %v is written %d times", i, extents, n)
		}
	}
}

// What a job reads of a partly read chunk lies inside the bytes that are read.
func (p *plan) checkHull(t *testing.T, l *arrayLayout, j *job, axes []axis) {
	t.Helper()
	c := &p.chunks[j.chunk]
	lo, hi, _ := l.recipe.hull(axes)
	if c.hi != 0 && (lo < c.lo || hi > c.hi) || lo < 0 || hi > l.recipe.size {
		t.Fatalf("job needs bytes %d:%d of a chunk read at %d:%d", lo, hi, c.lo, c.hi)
	}
}

func (p *plan) checkTouched(t *testing.T, l *arrayLayout, box nd.Box) {
	t.Helper()
	var want, got []string
	for c := range l.meta.Chunks(box) {
		want = append(want, coordinates(c))
	}
	for _, c := range p.chunks {
		got = append(got, coordinates(l.coordinate(len(l.meta.Levels)-1, c.leaf)))
	}
	got = slices.Compact(got)
	if !slices.Equal(got, want) {
		t.Fatalf("box %v touches %v, planned %v", box, want, got)
	}
}

// Planning stays exact far beyond 2^32, and does not depend on the array's size.
func TestPlanFarOut(t *testing.T) {
	l := layout{shape: []int64{1 << 41, 1 << 20}, chunk: []int64{64, 64}, shard: []int64{1024, 1024}, dtype: nd.U8, codec: "zstd"}
	f := &fieldLayout{crop: []int{2, 2}}
	x := newPlanned(t, l, f)
	at := int64(1<<41 - 65)
	var p plan
	if err := p.add(x.layout, 0, 0, f, &sampler.Crop{Box: nd.Box{{Start: at, Stop: at + 2}, {Start: 63, Stop: 65}}}); err != nil {
		t.Fatal(err)
	}
	if len(p.chunks) != 4 {
		t.Fatalf("%d chunks", len(p.chunks))
	}
	p.checkNumbers(t, x.layout)
	if got := coordinates(x.layout.coordinate(1, p.chunks[0].leaf)); got != fmt.Sprintf("%d/0", at/64) {
		t.Fatal(got)
	}
}

// A crop that needs an absurd number of chunks is refused, not planned.
func TestPlanIsBounded(t *testing.T) {
	l := layout{shape: []int64{1 << 20, 1 << 20}, chunk: []int64{1, 1}, dtype: nd.U8, codec: "zstd"}
	f := &fieldLayout{crop: []int{4096, 4096}}
	x := newPlanned(t, l, f)
	var p plan
	err := p.add(x.layout, 0, 0, f, &sampler.Crop{Box: nd.Box{{Stop: 4096}, {Stop: 4096}}})
	if err == nil || !strings.Contains(err.Error(), "chunks") {
		t.Fatal(err)
	}
}
