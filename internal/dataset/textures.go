package dataset

import (
	"math"

	"github.com/headrace/headrace/nd"
)

// lightMicroscopy is a background of 100 counts, 40 blobs (fewer in a small
// array) that are close to Gaussian but end, and shot noise that grows with the
// root of the signal. Types of one byte hold a quarter of the counts.
func lightMicroscopy(a *Array, s stream) values {
	volume, _ := nd.Product(a.Shape)
	blobs := make([]blob, min(max(volume/8192, 1), 40))
	for i := range blobs {
		blobs[i] = newBlob(s.sub(uint64(1+i)), a.Shape)
	}
	grain, shape := s.sub(0), a.Shape
	return func(dst []float64, at []int64) {
		for i := range dst {
			dst[i] = 100
		}
		for i := range blobs {
			blobs[i].add(dst, at)
		}
		i := linear(shape, at)
		for j, v := range dst {
			shot := float64(math.Sqrt(v)*0.6) * grain.normal(i+uint64(j))
			dst[j] = v + float64(shot)
			if a.DType.Size() == 1 {
				dst[j] /= 4
			}
		}
	}
}

type blob struct {
	centre          []float64
	deviation, peak float64
}

func newBlob(s stream, shape []int64) blob {
	b := blob{make([]float64, len(shape)), s.between(0, 6, 30), s.between(1, 50, 600)}
	for axis, n := range shape {
		b.centre[axis] = s.between(uint64(2+axis), 0, float64(n))
	}
	return b
}

// profile is the blob's share along one axis: (1 - d²/8σ²)⁴, close to
// exp(-d²/2σ²) and 0 beyond 2.8 σ.
func (b *blob) profile(axis int, x int64) float64 {
	d := (float64(x) - b.centre[axis]) / b.deviation
	p := max(0, 1-float64(d*d)/8)
	p *= p
	return p * p
}

func (b *blob) add(dst []float64, at []int64) {
	height, last := b.peak, len(at)-1
	for axis := range last {
		height *= b.profile(axis, at[axis])
	}
	if height == 0 || last < 0 {
		return
	}
	reach := b.deviation * 2.83
	from := max(0, int64(b.centre[last]-reach)-at[last])
	to := min(int64(len(dst)), int64(b.centre[last]+reach)+1-at[last])
	for i := from; i < to; i++ {
		dst[i] += float64(height * b.profile(last, at[last]+i))
	}
}

// electronMicroscopy is soft grey cytoplasm with dark membranes, where another
// noise crosses zero, and grain.
func electronMicroscopy(a *Array, s stream) values {
	soft, cells := newNoise(s.sub(1), 24), newNoise(s.sub(2), 40)
	grain, shape := s.sub(0), a.Shape
	var edge []float64
	return func(dst []float64, at []int64) {
		edge = append(edge[:0], dst...)
		soft.row(dst, at)
		cells.row(edge, at)
		i := linear(shape, at)
		for j, v := range dst {
			v = 150 + float64(35*v) + float64(8*grain.normal(i+uint64(j)))
			if math.Abs(edge[j]) < 0.06 {
				v -= 70
			}
			dst[j] = max(0, v)
		}
	}
}

// weather is a temperature in kelvin: warm in the middle of the last axis but
// one, cold at its ends, with three scales of noise. Floats are rounded to 1/64,
// as values unpacked from 16 bits are; integers hold hundredths, those of one
// byte whole kelvins above 220.
func weather(a *Array, s stream) values {
	scales := []*noise{newNoise(s.sub(1), 64), newNoise(s.sub(2), 16), newNoise(s.sub(3), 4)}
	weights := []float64{12, 4, 1}
	var part []float64
	return func(dst []float64, at []int64) {
		base := 288 - float64(40*latitude(a.Shape, at))
		part = append(part[:0], dst...)
		for i := range dst {
			dst[i] = base
		}
		for k, scale := range scales {
			scale.row(part, at)
			for i, v := range part {
				dst[i] += float64(weights[k] * v)
			}
		}
		for i, v := range dst {
			switch {
			case a.DType.Float() || a.DType.Complex():
				dst[i] = math.Floor(v*64) / 64
			case a.DType.Size() == 1:
				dst[i] = v - 220
			default:
				dst[i] = v * 100
			}
		}
	}
}

// latitude is 0 in the middle of the last axis but one and 1 at its ends.
func latitude(shape, at []int64) float64 {
	axis := len(at) - 2
	if axis < 0 || shape[axis] < 2 {
		return 0
	}
	t := 2*float64(at[axis])/float64(shape[axis]-1) - 1
	return t * t
}

// labels cuts space into cells of about 24 elements with bent borders. A label
// is at most 1000, or what the type holds; a quarter of the cells is 0.
func labels(a *Array, s stream) values {
	const cell = 24
	count := uint64(1000)
	if a.DType.Size() == 1 {
		count = 127
	}
	ids, bendY, bendX := s.sub(0), newNoise(s.sub(1), 32), newNoise(s.sub(2), 32)
	var dy []float64
	return func(dst []float64, at []int64) {
		dy = append(dy[:0], dst...)
		bendY.row(dy, at)
		bendX.row(dst, at)
		plane, z, y, x := inside(ids, at)
		plane = plane.sub(uint64(z / cell))
		for i, dx := range dst {
			cy := int64(math.Floor((float64(y) + float64(10*dy[i])) / cell))
			cx := int64(math.Floor((float64(x+int64(i)) + float64(10*dx)) / cell))
			h := plane.sub(uint64(cy)).at(uint64(cx))
			dst[i] = 0
			if h>>62 != 0 {
				dst[i] = float64(1 + h%count)
			}
		}
	}
}

func constant(dst []float64, _ []int64) {
	for i := range dst {
		dst[i] = 7
	}
}
