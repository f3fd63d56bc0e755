package launcher

import (
	"testing"

	"github.com/headrace/headrace/rank"
)

// A companion has its rank's GPU, by the number that the rank calls it.
func TestEngineDevice(t *testing.T) {
	two := []rank.GPUInfo{{UUID: "GPU-a", PCI: "0000:01:00.0"}, {UUID: "GPU-b", PCI: "0000:02:00.0"}}
	one := []rank.GPUInfo{two[0], two[0]} // all ranks share it
	for _, c := range []struct {
		gpus  []rank.GPUInfo
		local int
		alone bool
		want  string
	}{
		{nil, 1, false, "cpu"},
		{two, 0, false, "cuda:0"},
		{two, 1, false, "cuda:1"},
		{two, 1, true, "cuda:0"}, // --virtual-local-rank shows it alone
		{one, 1, false, "cuda:0"},
		{two[:1], 0, false, "cuda:0"},
	} {
		if got := engineDevice(c.gpus, c.local, c.alone); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
