package pipeline

import "github.com/headrace/headrace/codec"

// loop is one axis of a copy: n steps, and the bytes that one step moves the
// destination and the source.
type loop struct {
	n        int
	dst, src int64
}

// nest is a copy as nested loops, the outermost first. Axes of one element are
// left out, and neighbouring axes that are contiguous on both sides are one loop,
// so that the innermost loop is as long as the copy allows.
type nest struct {
	loops [maxRank]loop
	rank  int
	dst   int64 // first byte of the destination within its sample
	src   int64 // first byte of the source within the chunk
}

// build sorts the axes of a job by the destination: every write then goes
// forward through the tensor.
func (t *nest) build(axes []axis, f *fieldLayout, srcStride []int64) {
	t.rank, t.dst, t.src = 0, 0, 0
	for _, a := range f.order {
		x := &axes[a]
		d := f.strides[a]
		var s int64
		if srcStride != nil {
			s = srcStride[a]
		}
		t.dst += int64(x.dst) * d
		t.src += int64(x.src) * s
		if x.n == 1 {
			continue
		}
		step := int64(x.step) * s
		if t.rank > 0 {
			if o := &t.loops[t.rank-1]; o.dst == d*int64(x.n) && o.src == step*int64(x.n) {
				*o = loop{o.n * int(x.n), d, step}
				continue
			}
		}
		t.loops[t.rank] = loop{int(x.n), d, step}
		t.rank++
	}
}

// elements is how many the whole copy has.
func (t *nest) elements() int64 {
	n := int64(1)
	for _, l := range t.loops[:t.rank] {
		n *= int64(l.n)
	}
	return n
}

// row takes the innermost loop off the nest: the row of the copy. Where that is
// not contiguous in the destination the row is one element.
func (t *nest) row(elem int64) loop {
	if t.rank > 0 && t.loops[t.rank-1].dst == elem {
		return t.inner()
	}
	return loop{1, elem, 0}
}

// inner takes the innermost loop off the nest, one step if none is left.
func (t *nest) inner() loop {
	if t.rank == 0 {
		return loop{n: 1}
	}
	t.rank--
	return t.loops[t.rank]
}

// closest takes the loop with the smallest step in the source off the nest.
func (t *nest) closest() loop {
	best := -1
	for i := range t.rank {
		if best < 0 || max(t.loops[i].src, -t.loops[i].src) < max(t.loops[best].src, -t.loops[best].src) {
			best = i
		}
	}
	if best < 0 {
		return loop{n: 1}
	}
	l := t.loops[best]
	t.rank--
	copy(t.loops[best:t.rank], t.loops[best+1:t.rank+1])
	return l
}

// each calls part for every combination of the loops that are left, with the
// first byte of each side.
func (t *nest) each(part func(dst, src int64)) {
	var at [maxRank]int
	dst, src := t.dst, t.src
	for {
		part(dst, src)
		i := t.rank - 1
		for ; i >= 0; i-- {
			l := &t.loops[i]
			at[i]++
			dst += l.dst
			src += l.src
			if at[i] < l.n {
				break
			}
			dst -= l.dst * int64(l.n)
			src -= l.src * int64(l.n)
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// sampleMemory is where a job writes.
func (k *worker) sampleMemory(j *job, f *fieldLayout) []byte {
	j.slot.await()
	at := f.offset + int(j.sample)*f.sampleBytes
	return j.slot.mem[at : at+f.sampleBytes : at+f.sampleBytes]
}

// place copies and converts the part of a chunk that a job names. src holds the
// decoded bytes from c.skip on.
func (k *worker) place(w *wave, j *job, c *waveChunk, src []byte) {
	f := k.h.p.fields[j.field]
	var t nest
	t.build(w.axes[j.axes:j.axes+j.rank], f, c.recipe.stride)
	t.src -= c.skip
	mem := k.sampleMemory(j, f)
	conv := j.conv
	row := t.row(int64(conv.to))
	if row.n == 1 || row.src == int64(conv.from) {
		across := t.inner()
		plane := codec.Plane{N: row.n, Rows: across.n, DstStep: int(across.dst), SrcStep: int(across.src)}
		t.each(func(d, s int64) {
			plane.Dst, plane.Src = int(d), int(s)
			conv.plane(mem, src, plane)
			k.done.placed += int64(plane.Rows * plane.N * conv.to)
		})
		return
	}
	k.placeGathered(&t, mem, src, conv, row)
}

// planeBytes bounds what is gathered before it is converted: it stays in the
// first-level cache.
const planeBytes = 16 << 10

// placeGathered is place for rows that are not contiguous in the chunk: flipped,
// repeated or transposed. Rows are gathered together with their neighbours along
// the axis that is closest in the chunk, so that its cache lines are used up; long
// rows in pieces.
func (k *worker) placeGathered(t *nest, mem, src []byte, conv *conversion, row loop) {
	across := t.closest()
	piece := min(row.n, planeBytes/conv.from)
	wide := piece * conv.from
	rows := min(across.n, planeBytes/wide)
	if k.rows == nil {
		k.rows = make([]byte, planeBytes)
	}
	t.each(func(d, s int64) {
		for r := 0; r < across.n; r += rows {
			n := min(rows, across.n-r)
			for e := 0; e < row.n; e += piece {
				m := min(piece, row.n-e)
				codec.Gather2(k.rows, wide, src, int(s)+r*int(across.src)+e*int(row.src), int(across.src), int(row.src), n, m, conv.from)
				conv.plane(mem, k.rows, codec.Plane{N: m, Rows: n, Dst: int(d) + r*int(across.dst) + e*conv.to, DstStep: int(across.dst), SrcStep: wide})
			}
		}
		k.done.placed += int64(across.n * row.n * conv.to)
	})
}

// fill writes one element all over the part of the sample that a job names.
func (k *worker) fill(w *wave, j *job, elem []byte) {
	f := k.h.p.fields[j.field]
	var t nest
	t.build(w.axes[j.axes:j.axes+j.rank], f, nil)
	mem := k.sampleMemory(j, f)
	row := t.row(int64(len(elem)))
	bytes := int64(row.n * len(elem))
	t.each(func(d, _ int64) {
		codec.Fill(mem[d:d+bytes], elem)
		k.done.placed += bytes
	})
}
