package probe

import "math"

// cost is the model of a family of kernels: milliseconds a decoded GB of a full GPU,
// base + a part for each feature. No part is negative, so that more work never
// costs less.
type cost struct{ base, sequences, literals float64 }

func (c cost) of(f Features) float64 {
	return c.base + c.sequences*f.SequencesPerKiB + c.literals*f.LiteralShare
}

// observation is a measured cost.
type observation struct {
	features Features
	ms       float64 // a decoded GB
}

// fit finds the parts with the least squares of relative errors, none negative: of all
// choices of parts that may be other than zero the best one. With fewer
// observations than parts it leaves parts out, the literals first.
func fit(seen []observation) cost {
	columns := min(3, len(seen))
	var best cost
	least := math.Inf(1)
	for mask := 1; mask < 1<<columns; mask++ {
		c, ok := solve(seen, mask)
		if !ok || c.base < 0 || c.sequences < 0 || c.literals < 0 {
			continue
		}
		sum := 0.0
		for _, o := range seen {
			e := c.of(o.features)/o.ms - 1
			sum += e * e
		}
		// Of equal ones, the first: with fewer parts.
		if sum < least-1e-12 {
			best, least = c, sum
		}
	}
	return best
}

// solve is the fit with the parts of the mask alone, by the normal equations.
func solve(seen []observation, mask int) (cost, bool) {
	var a [3][4]float64 // the equations, and their right sides
	for _, o := range seen {
		row := [3]float64{1 / o.ms, o.features.SequencesPerKiB / o.ms, o.features.LiteralShare / o.ms}
		for i := range row {
			for j := range row {
				if mask>>i&1 == 1 && mask>>j&1 == 1 {
					a[i][j] += row[i] * row[j]
				}
			}
			if mask>>i&1 == 1 {
				a[i][3] += row[i]
			}
		}
	}
	for i := range 3 {
		if mask>>i&1 == 0 {
			a[i][i] = 1 // this part is zero
		}
	}
	x, ok := eliminate(a)
	return cost{x[0], x[1], x[2]}, ok
}

// eliminate solves three equations by Gauss and Jordan; ok is false for those that
// have no single solution.
func eliminate(a [3][4]float64) (x [3]float64, ok bool) {
	for i := range 3 {
		pivot := i
		for r := i + 1; r < 3; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[pivot][i]) {
				pivot = r
			}
		}
		a[i], a[pivot] = a[pivot], a[i]
		if math.Abs(a[i][i]) < 1e-15 {
			return x, false
		}
		for r := range 3 {
			if r == i {
				continue
			}
			scale := a[r][i] / a[i][i]
			for c := i; c < 4; c++ {
				a[r][c] -= scale * a[i][c]
			}
		}
	}
	for i := range 3 {
		x[i] = a[i][3] / a[i][i]
	}
	return x, true
}
