package sampler

import "github.com/headrace/headrace/nd"

// Crop is one box of one array.
type Crop struct {
	// Array is the index of the array in the pipeline's list.
	Array int
	// Box is in the array's axes; its extents equal the field's shape. It may
	// reach outside the array when the field's padding allows it.
	Box nd.Box
	// Flip reverses axis i of the crop when bit i is set, counted in the array's
	// axes, before any permutation of axes by the field.
	Flip uint32
}

// Sample is what becomes one entry of a batch: one crop for each field of the
// pipeline, in the order of the fields.
type Sample struct {
	// ID names the sample to the user; a Source uses its virtual index.
	ID    int64
	Crops []Crop
}

// Source is a finite indexed set of samples. Sample must be a pure function of
// i: two calls give the same sample, on any rank. Implementations are safe for
// concurrent use.
type Source interface {
	// Len is the number of samples.
	Len() int64
	// Sample is sample i, 0 <= i < Len.
	Sample(i int64) Sample
	// Fingerprint is a hex hash of the kind and the parameters of the source and
	// of the canonical metadata of its arrays; no location and no time enters it.
	Fingerprint() string
}
