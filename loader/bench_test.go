package loader_test

import (
	"errors"
	"io"
	"testing"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
	"github.com/headrace/headrace/store"
)

// BenchmarkNext is the cost of a batch of tiny samples from memory: what is not
// bytes.
func BenchmarkNext(b *testing.B) {
	const n = 100_000
	source, err := sampler.NewRandom(sampler.RandomCrops{Fields: []sampler.Field{{
		Name: "x", Crop: []int64{crop}, Arrays: []sampler.Array{{Name: "a", Shape: []int64{n}}},
	}}, Count: n})
	if err != nil {
		b.Fatal(err)
	}
	l, err := loader.New(b.Context(), rank.Single(), source, config(store.NewMemory(objects(n))))
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, l)
	b.ReportAllocs()
	for b.Loop() {
		batch, err := l.Next(b.Context())
		if errors.Is(err, io.EOF) {
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := batch.Release(nil); err != nil {
			b.Fatal(err)
		}
	}
}
