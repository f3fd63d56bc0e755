package pipeline

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// A chunk without codecs whose file is too short or too long must fail the same
// samples on a device as on the host.
func TestRawChunkOfWrongLength(t *testing.T) {
	for name, n := range map[string]int{"short": 300, "long": 2000} {
		for _, reuse := range []Reuse{ReuseNone, ReuseWindow, ReuseCache} {
			t.Run(name+" "+reuse.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				a := makeArray(t, r, layout{shape: []int64{64, 64}, chunk: []int64{16, 16}, dtype: nd.U16})
				for _, key := range []string{"c/1/1", "c/2/0", "c/0/3"} {
					data := a.files[key]
					for len(data) < n {
						data = append(data, 0xEE)
					}
					a.files[key] = data[:n]
				}
				var samples []sampler.Sample
				for i := range 64 {
					samples = append(samples, at(int64(i), r.Int64N(61), r.Int64N(61)))
				}
				cfg := Config{
					Arrays: []ArrayRef{{URI: "a", Store: a.stored("a")}}, BatchSize: 8, OnError: Skip, Reuse: reuse,
					Fields: []Field{{Name: "x", Shape: []int{4, 4}, DType: nd.U16}},
				}
				host := outcome(t, cfg, samples)
				onFake(t, &cfg)
				got := outcome(t, cfg, samples)
				if !slices.Equal(got, host) {
					failed := func(parts []string) (n int) {
						for _, p := range parts {
							if strings.Contains(p, "sample ") {
								n++
							}
						}
						return n
					}
					t.Errorf("%d samples fail, on the host %d", failed(got), failed(host))
				}
			})
		}
	}
}
