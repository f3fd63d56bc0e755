package launcher

import (
	"slices"
	"testing"
)

// What execve lets through need not have a value: a text without "=" is no variable, and
// of a name that comes twice the first counts, as with getenv.
func TestOverlay(t *testing.T) {
	e := overlay([]string{"CUDA_VISIBLE_DEVICES", "A=1", "A=2", "=x"})
	if v, ok := e.get("CUDA_VISIBLE_DEVICES"); ok {
		t.Errorf("a text without a value is %q", v)
	}
	e.set("A", "3")
	e.fill("CUDA_VISIBLE_DEVICES", "0")
	if want := []string{"CUDA_VISIBLE_DEVICES", "A=3", "=x", "CUDA_VISIBLE_DEVICES=0"}; !slices.Equal(e.list, want) {
		t.Errorf("%q, want %q", e.list, want)
	}
}
