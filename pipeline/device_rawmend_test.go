package pipeline

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// A raw chunk is read whole up to deviceRawWhole (4 MiB), but the settler has room for
// limits.chunk (2 MiB where no codec asks for more): a bad one must not end the pipeline.
func TestRawChunkLargerThanTheMender(t *testing.T) {
	const n = 3 << 19 // elements, 3 MiB
	a := makeArray(t, rand.New(rand.NewPCG(1, 2)), layout{shape: []int64{4 * n}, chunk: []int64{n}, dtype: nd.U16})
	a.files["c/0"] = a.files["c/0"][:2*n-1]
	a.files["c/1"] = a.files["c/1"][:2*n-2]
	cfg := Config{
		Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 2, Reuse: ReuseNone, OnError: Skip,
		Fields: []Field{{Name: "x", Shape: []int{4}, DType: nd.U16}},
	}
	onFake(t, &cfg)
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // the test is about what came before
	var list []sampler.Sample
	for i := range int64(2) {
		list = append(list, sampler.Sample{ID: i, Crops: []sampler.Crop{{Box: nd.Box{{Start: i*n + 5, Stop: i*n + 9}}}}})
	}
	push(t, p, list...)
	b, err := p.Next(t.Context())
	if err != nil {
		t.Fatalf("%.200v", err)
	}
	if len(b.Errs()) != 2 {
		t.Errorf("%d samples fail, both chunks are too short", len(b.Errs()))
	}
	release(t, b)
}
