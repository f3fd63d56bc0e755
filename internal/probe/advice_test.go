package probe

import (
	"strings"
	"testing"
)

// row is a row of a table: name, f32 GB/s to the GPU and on the host, size.
func row(name string, gpu, host, size float64) Candidate {
	return Candidate{Codec: name, AsStored: name == "as stored", Ratio: 2 / size, Size: size, F32GBPerS: gpu, HostF32GBPerS: host}
}

func TestAdvice(t *testing.T) {
	now := row("as stored", 50, 1, 1)
	for _, c := range []struct {
		name         string
		to           target
		table        []Candidate
		action, text string
	}{
		{"nothing stored", toGPU, nil, "keep", "no chunk is stored"},
		{"nothing else", toGPU, []Candidate{now}, "keep", "keep: nothing that was tried is faster or smaller"},
		{"much faster and smaller", toGPU, []Candidate{now, row("shuffle+zstd:3", 105, 2, 0.82)}, "rewrite", "rewrite with shuffle+zstd:3: 2.1x faster to the GPU and 18 % smaller"},
		{"faster, of the same size", toGPU, []Candidate{now, row("zstd:1", 100, 2, 1.004)}, "rewrite", "2.0x faster to the GPU and of the same size"},
		{"faster, a little larger", toGPU, []Candidate{now, row("lz4", 100, 2, 1.08)}, "rewrite", "2.0x faster to the GPU and 8 % larger"},
		{"faster, much larger", toGPU, []Candidate{now, row("none", 100, 9, 1.5)}, "keep", "nothing that was tried"},
		{"a little faster", toGPU, []Candidate{now, row("zstd:1", 58, 1, 0.95)}, "keep", "the best that was tried, zstd:1, is 1.2x faster to the GPU and 5 % smaller"},
		{"as fast, much smaller", toGPU, []Candidate{now, row("zstd:9", 50, 1, 0.7)}, "rewrite", "as fast to the GPU and 30 % smaller"},
		{"as fast, a little smaller", toGPU, []Candidate{now, row("zstd:9", 50, 1, 0.9)}, "keep", "as fast to the GPU and 10 % smaller"},
		{"slower and much smaller", toGPU, []Candidate{now, row("zstd:19", 30, 1, 0.5)}, "keep", "nothing that was tried"},
		{"of two alike the smaller", toGPU, []Candidate{now, row("a", 100, 1, 0.9), row("b", 98, 1, 0.6)}, "rewrite", "with b: 2.0x faster to the GPU and 40 % smaller"},
		{"the host's column", onHost, []Candidate{now, row("a", 100, 1, 0.9), row("b", 50, 3, 1)}, "rewrite", "with b: 3.0x faster on the host"},
	} {
		if got := c.to.advise(c.table); got.Action != c.action || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, got.Action, got.Text, c.action, c.text)
		}
	}
}

// The table is sorted by the target's rate; of equal rows the smaller comes first, then
// the one that is there.
func TestRank(t *testing.T) {
	table := []Candidate{row("slow", 1, 9, 1), row("same", 5, 2, 1), row("as stored", 5, 2, 1), row("small", 5, 1, 0.5), row("fast", 9, 0.5, 2)}
	for to, want := range map[target]string{toGPU: "fast small as stored same slow", onHost: "slow as stored same small fast"} {
		to.rank(table)
		var names []string
		for _, c := range table {
			names = append(names, c.Codec)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
	}
}

// The slowest stage binds on the way to a GPU; on the host the stages share the cores.
func TestStages(t *testing.T) {
	m := &machine{again: 10, convert: 4, cores: 8, scale: 6, copy: 50, copyFrom: Predicted, assemble: 1000}
	c := Candidate{Ratio: 2, HostGBPerSCore: 1, GPUGBPerS: 120, GPUFrom: Predicted}
	gpu, host := m.judge(&c, 1) // a decoded byte for a byte of f32
	if c.F32GBPerS != 100 || c.Bound != "copy" || len(gpu) != 3 {
		t.Errorf("to the GPU: %v by %s, %+v", c.F32GBPerS, c.Bound, gpu)
	}
	// Read 20 GB/s of f32, decoded 6, converted 32: 1/20 + 1/6 + 1/32.
	if want := 1 / (1.0/20 + 1.0/6 + 1.0/32); c.HostF32GBPerS != want || c.HostBound != "decode" || len(host) != 3 {
		t.Errorf("on the host: %v by %s, want %v: %+v", c.HostF32GBPerS, c.HostBound, want, host)
	}
	// What the host decodes crosses the bus decoded, and its files are read by it.
	c = Candidate{Ratio: 2, HostGBPerSCore: 1, GPUFrom: ByHost}
	gpu, _ = m.judge(&c, 1)
	if gpu[0].Name != "page cache" || gpu[1].Of != "decoded" || gpu[1].F32GBPerS != 50 || c.F32GBPerS != 6 || c.Bound != "decode" {
		t.Errorf("decoded by the host: %+v, %v by %s", gpu, c.F32GBPerS, c.Bound)
	}
	// Without anything to decode there is no such stage.
	c = Candidate{Ratio: 1, GPUFrom: Predicted}
	if gpu, host = m.judge(&c, 1); len(gpu) != 2 || len(host) != 2 || c.F32GBPerS != 50 {
		t.Errorf("uncompressed: %+v %+v %v", gpu, host, c.F32GBPerS)
	}
}
