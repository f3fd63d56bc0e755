package dataset

// noise is value noise: random numbers in [-1, 1) on a lattice, smoothly
// interpolated between. It varies along the last three axes; the axes before
// them choose another noise. It has scratch, so one goroutine at a time.
type noise struct {
	values  stream
	spacing int64
	columns []float64
}

func newNoise(values stream, spacing int64) *noise {
	return &noise{values: values, spacing: spacing}
}

// row gives the noise of the elements from at on along the last axis.
func (v *noise) row(dst []float64, at []int64) {
	values, z, y, x := inside(v.values, at)
	first := x / v.spacing
	v.interpolate(values, z, y, first, (x+int64(len(dst))-1)/v.spacing+1)
	for i := range dst {
		cell, t := v.split(x + int64(i))
		left, right := v.columns[cell-first], v.columns[cell-first+1]
		dst[i] = mixed(left, right, t)
	}
}

// interpolate fills columns with the noise at lattice columns first..last of the
// line (z, y).
func (v *noise) interpolate(values stream, z, y, first, last int64) {
	v.columns = v.columns[:0]
	zi, zt := v.split(z)
	yi, yt := v.split(y)
	for xi := first; xi <= last; xi++ {
		near := mixed(lattice(values, zi, yi, xi), lattice(values, zi, yi+1, xi), yt)
		far := mixed(lattice(values, zi+1, yi, xi), lattice(values, zi+1, yi+1, xi), yt)
		v.columns = append(v.columns, mixed(near, far, zt))
	}
}

// split is the lattice cell of a coordinate and the smoothed way through it.
func (v *noise) split(x int64) (cell int64, t float64) {
	cell = x / v.spacing
	t = float64(x%v.spacing) / float64(v.spacing)
	return cell, float64(t*t) * (3 - 2*t)
}

// inside is the noise for the leading axes of at, and the coordinates along the
// last three, 0 where there are fewer.
func inside(values stream, at []int64) (s stream, z, y, x int64) {
	for ; len(at) > 3; at = at[1:] {
		values = values.sub(uint64(at[0]))
	}
	var last [3]int64
	copy(last[3-len(at):], at)
	return values, last[0], last[1], last[2]
}

func lattice(values stream, z, y, x int64) float64 {
	const a, b = 0xD6E8FEB86659FD93, 0xA0761D6478BD642F // odd: no two near cells meet
	return values.signed(uint64(z)*a + uint64(y)*b + uint64(x))
}

// mixed goes from a to b. The product is rounded before the sum on every
// machine.
func mixed(a, b, t float64) float64 { return a + float64((b-a)*t) }
