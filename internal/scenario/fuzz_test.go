package scenario

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Whatever is in the file: either a config error, or a scenario whose echo reads
// as the same scenario and whose crops can be drawn.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../bench/scenarios/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(minimal))
	f.Add([]byte(`{"dataset":{"uris":["a"],"codecs":[["transpose",{"name":"gzip","configuration":{"level":1}}]]},"sampling":{"sample_shape":[1],"n_batches":1,"samples_per_batch":1},"pipeline":{"bypass_decode":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			if !errors.Is(err, nd.ErrConfig) {
				t.Fatalf("%v is no config error", err)
			}
			return
		}
		echo, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(echo)
		if err != nil {
			t.Fatalf("the echo does not parse: %v\n%s", err, echo)
		}
		if twice, err := json.Marshal(again); err != nil || !reflect.DeepEqual(echo, twice) {
			t.Fatalf("the echo\n%s\nreads as\n%s", echo, twice)
		}
		s.Notes()
		if len(s.Dataset.URIs) > 0 || s.Dataset.NZarrs > 1000 {
			return
		}
		shapes := make([][]int64, len(s.Dataset.Paths()))
		for i := range shapes {
			shapes[i] = s.Dataset.ZarrShape
		}
		if _, box := NewDraws(s.Sampling.Seed).Crop(shapes, s.Sampling.SampleShape); !box.Within(s.Dataset.ZarrShape) {
			t.Fatalf("crop %v outside %v", box, s.Dataset.ZarrShape)
		}
	})
}
