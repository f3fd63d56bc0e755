package loader_test

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/loader"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/store"
)

// Arrays numbers what it finds in the order asked for, and says what it does not
// find.
func TestArrays(t *testing.T) {
	st := store.NewMemory(objects(20))
	ref := pipeline.ArrayRef{Store: st}
	list, err := loader.Arrays(t.Context(), ref, ref)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range list {
		if a.Index != i || len(a.Shape) == 0 || len(a.Canonical) == 0 {
			t.Errorf("array %d: %+v", i, a)
		}
	}
	if _, err := loader.Arrays(t.Context(), pipeline.ArrayRef{URI: "nowhere", Store: st}); !errors.Is(err, nd.ErrNotFound) {
		t.Error(err)
	}
}
