package probe

import (
	"slices"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/zarr"
)

// Crop is what crops of one shape ask of an array, over all origins at which they lie
// inside it, each as likely: exact, not drawn. Nothing is reused between crops.
type Crop struct {
	Shape     []int64 `json:"shape"`
	Chunks    float64 `json:"chunks"` // that a crop touches, mean
	ChunksMin int64   `json:"chunks_min"`
	ChunksMax int64   `json:"chunks_max"`
	Objects   float64 `json:"objects"` // files that they lie in, mean
	Bytes     int64   `json:"bytes"`   // of the crop in the array's type
	// Bytes for each byte of the crop. Chunks that are not stored cost nothing; how many
	// those are, and how long the others, is known from the sample.
	Decoded float64 `json:"decoded_per_byte"`
	Stored  float64 `json:"stored_per_byte"`
}

// spans says how many cells of a grid a span of c elements touches at the origins 0 to
// n-c of an axis of n elements, in cells of k: the mean, the least and the most.
func spans(n, c, k int64) (mean float64, least, most int64) {
	origins := n - c + 1
	// At an origin of remainder r the span touches q+1 cells, one more from r = k-s on.
	q, s := (c-1)/k, (c-1)%k
	sum := func(remainders int64) float64 {
		return float64(remainders)*float64(q+1) + float64(max(0, remainders-(k-s)))
	}
	mean = (float64(origins/k)*sum(k) + sum(origins%k)) / float64(origins)
	least, most = q+1, q+1
	if min(k, origins) > k-s {
		most++
	}
	return mean, least, most
}

// newCrop works out a crop; stored and present are of the sample: the mean stored bytes
// of a chunk that is there, and which part of them is.
func newCrop(a *zarr.Array, shape []int64, stored, present float64) Crop {
	c := Crop{Shape: shape, Chunks: 1, ChunksMin: 1, ChunksMax: 1, Objects: 1, Bytes: int64(a.DType.Size())}
	for i, n := range shape {
		mean, least, most := spans(a.Shape[i], n, a.Leaf().Chunk[i])
		c.Chunks *= mean
		c.ChunksMin *= least
		c.ChunksMax *= most
		objects, _, _ := spans(a.Shape[i], n, a.Levels[0].Chunk[i])
		c.Objects *= objects
		c.Bytes *= n
	}
	c.Decoded = c.Chunks * present * float64(a.ChunkBytes()) / float64(c.Bytes)
	c.Stored = c.Chunks * present * stored / float64(c.Bytes)
	return c
}

// cropShape checks a crop that was asked for, or picks one of about two million
// elements: 128 along three axes, 1024 along two, and a single plane of others.
func cropShape(a *zarr.Array, asked []int64) ([]int64, error) {
	rank := len(a.Shape)
	if len(asked) == 0 {
		shape := make([]int64, rank)
		edge := [...]int64{1, 1 << 20, 1024, 128}[min(rank, 3)]
		for i := range shape {
			shape[i] = 1
			if i >= rank-3 {
				shape[i] = min(edge, a.Shape[i])
			}
		}
		return shape, nil
	}
	if len(asked) != rank {
		return nil, nd.Errorf(nd.ErrConfig, "crop %v has %d axes, the array %d: its shape is %v", asked, len(asked), rank, a.Shape)
	}
	for i, n := range asked {
		if n < 1 || n > a.Shape[i] {
			return nil, nd.Errorf(nd.ErrConfig, "crop %v does not fit the array's shape %v: axis %d is %d", asked, a.Shape, i, n)
		}
	}
	if n, ok := nd.Product(asked); !ok || n > 1<<40 {
		return nil, nd.Errorf(nd.ErrConfig, "crop %v is larger than any batch", asked)
	}
	return slices.Clone(asked), nil
}
