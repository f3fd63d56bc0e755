package pipeline

import (
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/zarr"
)

// arrayLayout is what planning needs to know of an array: where a leaf chunk
// lies on its grid, which object holds it, and at which entry of that object's
// index. All strides are per axis of the array.
type arrayLayout struct {
	uri         string
	meta        *zarr.Array
	recipe      *recipe
	chunk       []int64
	gridStride  []int64 // of the leaf grid
	holder      int     // level of the objects that locate leaf chunks
	ratio       []int64 // leaf chunks per holder
	holdStride  []int64 // of the grid of holders
	entryStride []int64 // of the table within a holder
	whole       int64   // a raw chunk of so many bytes is read whole
}

func newArrayLayout(uri string, a *zarr.Array, r *recipe) *arrayLayout {
	leaf := len(a.Levels) - 1
	l := &arrayLayout{uri: uri, meta: a, recipe: r, chunk: a.Leaf().Chunk, holder: max(0, leaf-1), whole: rawWhole}
	l.gridStride = rowMajor(a.GridShape(leaf), nil)
	l.holdStride = rowMajor(a.GridShape(l.holder), nil)
	l.ratio = make([]int64, len(l.chunk))
	for i := range l.ratio {
		l.ratio[i] = a.Levels[l.holder].Chunk[i] / l.chunk[i]
	}
	l.entryStride = rowMajor(l.ratio, a.Levels[l.holder].Order)
	return l
}

// rowMajor are the strides, in entries, of a table of the given counts whose
// stored axis i is axis order[i].
func rowMajor(counts []int64, order []int) []int64 {
	return strides(counts, order, 1)
}

// plannedChunk is one chunk that a sample needs, with the jobs that it feeds.
type plannedChunk struct {
	array    int32
	firstJob int32 // list linked by job.next
	leaf     int64 // number of the chunk on the leaf grid
	holder   int64 // number of the object that locates it
	entry    int64 // number of its entry there
	lo, hi   int64 // bytes of a raw chunk that are needed; hi is 0 for all of it
}

// plan is the pure result of planning one sample: which chunks it needs and
// which part of each goes where. Together the jobs write every element of every
// field exactly once. It is reused from sample to sample.
type plan struct {
	chunks []plannedChunk
	jobs   []job
	axes   []axis
	padded bool // some jobs have no chunk
	pieces [maxRank][]piece
	inside [maxRank]span32
}

type span32 struct{ start, stop int32 }

// piece is a run along one axis that lies in one chunk of the grid.
type piece struct {
	axis
	leaf, holder, entry int64 // this axis' share of the numbers in plannedChunk
}

// maxJobs bounds what one sample may need: a crop over a million one-element
// chunks is a mistake, and a plan of it would hold a gigabyte. Cutting an axis
// stops one piece beyond it.
const maxJobs = 1 << 20

func (p *plan) reset() {
	p.chunks, p.jobs, p.axes, p.padded = p.chunks[:0], p.jobs[:0], p.axes[:0], false
}

// add plans one crop for one field. A box that leaves the array without padding
// is nd.ErrShape.
func (p *plan) add(l *arrayLayout, array, field int32, f *fieldLayout, crop *sampler.Crop) error {
	shape := l.meta.Shape
	total := 1
	for a := range shape {
		if err := p.cut(l, a, f, crop); err != nil {
			return err
		}
		if total *= len(p.pieces[a]); total > maxJobs {
			return nd.Errorf(nd.ErrBudget, "box %v needs more than %d parts of chunks of %v: use a smaller one", crop.Box, maxJobs, l.chunk)
		}
	}
	if f.pad == PadFill {
		p.addPadding(field, f, len(shape))
	}
	if total > 0 {
		p.addChunks(l, array, field, len(shape))
	}
	return nil
}

// cut fills p.pieces[a] and p.inside[a].
func (p *plan) cut(l *arrayLayout, a int, f *fieldLayout, crop *sampler.Crop) error {
	box, extent := crop.Box[a], l.meta.Shape[a]
	p.pieces[a] = p.pieces[a][:0]
	lo := min(max(box.Start, 0), box.Stop)
	hi := max(min(box.Stop, extent), lo)
	outside := lo != box.Start || hi != box.Stop
	if outside && (f.pad == PadError || f.pad != PadFill && extent == 0) {
		return nd.Errorf(nd.ErrShape, "box %v leaves the array of shape %v on axis %d; choose a padding to allow it", crop.Box, l.meta.Shape, a)
	}
	if outside && f.pad != PadFill {
		p.fold(l, a, f.pad, box, extent)
	} else {
		p.run(l, a, int32(lo-box.Start), lo, hi-lo, 1)
	}
	p.inside[a] = span32{int32(lo - box.Start), int32(hi - box.Start)}
	if crop.Flip>>a&1 == 1 {
		p.flip(a, int32(box.Len()))
	}
	return nil
}

// fold covers a box that reaches outside with runs over the array: forth and
// back for PadReflect, standing still at the border for PadEdge.
func (p *plan) fold(l *arrayLayout, a int, pad Pad, box nd.Span, extent int64) {
	period := 2 * (extent - 1)
	for x := box.Start; x < box.Stop && len(p.pieces[a]) <= maxJobs; {
		dst := int32(x - box.Start)
		left := box.Stop - x
		var n int64
		switch {
		case pad == PadEdge || extent == 1:
			switch {
			case x < 0:
				n = min(left, -x)
				p.run(l, a, dst, 0, n, 0)
			case x >= extent:
				n = left
				p.run(l, a, dst, extent-1, n, 0)
			default:
				n = min(left, extent-x)
				p.run(l, a, dst, x, n, 1)
			}
		default:
			at := ((x % period) + period) % period
			if at < extent-1 { // rising part: [0, extent-1)
				n = min(left, extent-1-at)
				p.run(l, a, dst, at, n, 1)
			} else { // falling part: from extent-1 down to 1
				n = min(left, period-at)
				p.run(l, a, dst, period-at, n, -1)
			}
		}
		x += n
	}
}

// run adds the pieces of n elements from array index x on, cut at chunk borders.
func (p *plan) run(l *arrayLayout, a int, dst int32, x, n int64, step int32) {
	c := l.chunk[a]
	for n > 0 && len(p.pieces[a]) <= maxJobs {
		g := x / c
		src := x - g*c
		m := n
		switch step {
		case 1:
			m = min(n, c-src)
		case -1:
			m = min(n, src+1)
		}
		p.pieces[a] = append(p.pieces[a], piece{
			axis:   axis{dst: dst, src: int32(src), n: int32(m), step: step},
			leaf:   g * l.gridStride[a],
			holder: g / l.ratio[a] * l.holdStride[a],
			entry:  g % l.ratio[a] * l.entryStride[a],
		})
		dst += int32(m)
		x += m * int64(step)
		n -= m
	}
}

// flip reverses the axis: what was written from the front comes from the back.
func (p *plan) flip(a int, extent int32) {
	for i := range p.pieces[a] {
		q := &p.pieces[a][i]
		q.src += (q.n - 1) * q.step
		q.dst = extent - q.dst - q.n
		q.step = -q.step
	}
	in := p.inside[a]
	p.inside[a] = span32{extent - in.stop, extent - in.start}
}

// addPadding adds jobs for the part of the crop that lies outside the array: for
// each axis what is left of and right of the inside, within the inside of the
// axes before it.
func (p *plan) addPadding(field int32, f *fieldLayout, rank int) {
	for a := range rank {
		extent := int32(f.crop[a])
		in := p.inside[a]
		for _, out := range [2]span32{{0, in.start}, {in.stop, extent}} {
			if out.start == out.stop {
				continue
			}
			p.padded = true
			at := int32(len(p.axes))
			for b := range rank {
				s := span32{0, int32(f.crop[b])}
				if b < a {
					s = p.inside[b]
				} else if b == a {
					s = out
				}
				p.axes = append(p.axes, axis{dst: s.start, n: s.stop - s.start})
			}
			p.jobs = append(p.jobs, job{chunk: -1, next: -1, field: field, axes: at, rank: int32(rank)})
		}
		if in.start == in.stop {
			return
		}
	}
}

// addChunks adds a chunk and a job for each combination of pieces, in the order
// of the grid.
func (p *plan) addChunks(l *arrayLayout, array, field int32, rank int) {
	var at [maxRank]int
	for {
		c := plannedChunk{array: array}
		first := int32(len(p.axes))
		for a := range rank {
			q := &p.pieces[a][at[a]]
			c.leaf += q.leaf
			c.holder += q.holder
			c.entry += q.entry
			p.axes = append(p.axes, q.axis)
		}
		if l.recipe.raw && l.recipe.size > l.whole {
			p.addRaw(l, c, field, first, rank)
		} else {
			p.addJob(c, field, first, rank)
		}
		a := rank - 1
		for ; a >= 0; a-- {
			if at[a]++; at[a] < len(p.pieces[a]) {
				break
			}
			at[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

func (p *plan) addJob(c plannedChunk, field, axes int32, rank int) {
	c.firstJob = int32(len(p.jobs))
	p.jobs = append(p.jobs, job{chunk: int32(len(p.chunks)), next: -1, field: field, axes: axes, rank: int32(rank)})
	p.chunks = append(p.chunks, c)
}

const (
	// rawWhole is the size of a chunk without codecs that is always read whole:
	// below it a request costs more than the bytes. deviceRawWhole is the same where
	// batches are made on a GPU: there many small copies cost more than large ones,
	// and a whole chunk is kept for its other uses.
	rawWhole       = 64 << 10
	deviceRawWhole = maxRead
	// rawHull is the largest range that is read although most of it is not needed.
	rawHull = 128 << 10
)

// addRaw adds the part of a chunk without codecs that a job needs. The chunk is
// read whole when the job needs more than half of it and one read can hold it;
// otherwise only the range that spans the job, split along the slowest axis while
// that is mostly holes or more than one read. So every read fits the ring, however
// large the chunk is.
func (p *plan) addRaw(l *arrayLayout, c plannedChunk, field, axes int32, rank int) {
	r := l.recipe
	lo, hi, need := r.hull(p.axes[axes : int(axes)+rank])
	if need > r.size/2 && r.size <= maxRead {
		p.addJob(c, field, axes, rank)
		return
	}
	slow := r.slowest(p.axes[axes : int(axes)+rank])
	dense := hi-lo <= rawHull || need > (hi-lo)/2
	if dense && hi-lo <= maxRead || slow < 0 || len(p.jobs) >= maxJobs {
		c.lo, c.hi = lo, hi
		p.addJob(c, field, axes, rank)
		return
	}
	whole := p.axes[int(axes)+slow]
	part := int64(1) // indices along the axis that are read together
	if dense {
		rest := hi - lo - int64(whole.n-1)*r.stride[slow]
		part = max(1, (maxRead-rest)/r.stride[slow]+1)
	}
	for i := int64(0); i < int64(whole.n); i += part {
		at := axes
		if i+part < int64(whole.n) { // the last part takes the place of the whole
			at = int32(len(p.axes))
			p.axes = append(p.axes, p.axes[axes:int(axes)+rank]...)
		}
		n := int32(min(part, int64(whole.n)-i))
		p.axes[int(at)+slow] = axis{dst: whole.dst + int32(i), src: whole.src + int32(i)*whole.step, n: n, step: whole.step}
		p.addRaw(l, c, field, at, rank)
	}
}

// hull is the range of bytes of a decoded chunk that a job reads, and how many
// of them it needs.
func (r *recipe) hull(axes []axis) (lo, hi, need int64) {
	need = int64(r.elem.Size())
	hi = need
	for a, x := range axes {
		first, last := int64(x.src), int64(x.src+(x.n-1)*x.step)
		lo += min(first, last) * r.stride[a]
		hi += max(first, last) * r.stride[a]
		if x.step != 0 {
			need *= int64(x.n)
		}
	}
	return lo, hi, need
}

// slowest is the axis of the largest stride along which the job takes more than
// one element, -1 if there is none.
func (r *recipe) slowest(axes []axis) int {
	best := -1
	for a, x := range axes {
		if x.n > 1 && x.step != 0 && (best < 0 || r.stride[a] > r.stride[best]) {
			best = a
		}
	}
	return best
}
