package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/probe"
)

// printProbe writes a result for people: what the array is and costs, the way of a
// batch, the table of codecs, the advice, and where predictions come from.
func (a *app) printProbe(r *probe.Result) error {
	for _, rows := range [][]byte{probeFacts(r), probeStages(r), probeTable(r), probeEnd(r)} {
		if err := a.printTable(rows); err != nil {
			return err
		}
	}
	return nil
}

// predicted marks a figure that was not measured here; the last lines explain it.
const predicted = "*"

// probeFacts are lines of a name and what is known.
func probeFacts(r *probe.Result) (rows []byte) {
	row := func(name, format string, args ...any) {
		rows = fmt.Appendf(rows, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("array", "%s: zarr %d, %s of %s", r.URI, r.ZarrFormat, extents(r.Shape), r.DType)
	shards := ""
	if r.Shards != nil {
		shards = " in shards of " + extents(r.Shards)
	}
	row("chunks", "%s (%s decoded)%s", extents(r.Chunks), byteSize(r.ChunkBytes), shards)
	codecs := strings.Join(r.Codecs, ", ")
	if codecs == "" {
		codecs = "none"
	}
	row("codecs", "%s", codecs)
	s := r.Sample
	row("sample", "%d of %d chunks looked at (seed %d): %d missing, %d broken, %d read (%s)", s.Looked, s.Grid, s.Seed, s.Missing, s.Failed, s.Read, byteSize(s.Bytes))
	if s.Failure != "" {
		row("broken", "the first: %s", s.Failure)
	}
	if z := r.Sizes; z != nil {
		row("ratio", "%.2f: %.2f to %.2f, 10 %% below %.2f, median %.2f, 10 %% above %.2f", z.Ratio, z.RatioMin, z.RatioMax, z.RatioP10, z.RatioMedian, z.RatioP90)
	}
	if r.Structure != nil {
		row("inside", "%s", inside(r.Structure))
	}
	if r.Sample.Read > 0 {
		probeRates(r, row)
	}
	c := r.Crop
	row("crop", "%s: %.1f chunks (%d to %d) in %.1f files; each byte of it decodes %.2f and reads %.2f, without reuse", extents(c.Shape), c.Chunks, c.ChunksMin, c.ChunksMax, c.Objects, c.Decoded, c.Stored)
	for _, note := range r.Notes {
		row("note", "%s", note)
	}
	return rows
}

// inside tells what predicts the cost of decoding.
func inside(s *probe.StructureReport) string {
	parts := []string{
		fmt.Sprintf("%.1f sequences a KiB", s.SequencesPerKiB), fmt.Sprintf("%.0f %% Huffman literals", s.LiteralShare*100),
		fmt.Sprintf("%.0f %% stored plain", s.PlainShare*100),
		fmt.Sprintf("%.1f blocks a chunk (%d raw, %d RLE, %d compressed)", s.BlocksPerChunk, s.Blocks.Raw, s.Blocks.RLE, s.Blocks.Compressed),
	}
	if len(s.HuffmanTables)+s.Treeless > 0 {
		var tables []string
		for _, t := range s.HuffmanTables {
			tables = append(tables, fmt.Sprintf("%d of %d bits", t.Tables, t.Bits))
		}
		parts = append(parts, fmt.Sprintf("Huffman tables: %s, %d blocks use the one of the block before", strings.Join(tables, ", "), s.Treeless))
	}
	if s.WindowBytes > 0 {
		parts = append(parts, "window "+byteSize(s.WindowBytes), fmt.Sprintf("checksum in %d of %d frames", s.Checksums, s.Frames))
	}
	if s.Sizeless > 0 {
		parts = append(parts, fmt.Sprintf("%d frames do not say their size", s.Sizeless))
	}
	if s.Shuffle != "" {
		parts = append(parts, "shuffle: "+s.Shuffle)
	}
	return strings.Join(parts, ", ")
}

func probeRates(r *probe.Result, row func(name, format string, args ...any)) {
	if r.Storage.AgainGBPerS > 0 {
		row("reads", "measured here: %.2f GB/s at first, %.2f again", r.Storage.FirstGBPerS, r.Storage.AgainGBPerS)
	}
	h := r.Host
	if h.GBPerSCore > 0 {
		library := ""
		if r.Method == probe.Zstd || r.Method == probe.BloscZstd {
			library = fmt.Sprintf(" (zstd: %s)", h.Library)
		}
		row("host", "measured here: %.2f GB/s decoded by one core, %.2f by %d%s", h.GBPerSCore, h.GBPerS, h.Workers, library)
	}
	if h.Plain {
		row("host", "nothing to decode: the chunks did not compress, and hold plain bytes")
	}
	g := r.GPU
	if g.From == probe.ByHost {
		row("GPU", "no kernels for these chunks: the host decodes them")
		return
	}
	for _, w := range g.Waves {
		more := ""
		if int64(w.Chunks) > r.Sample.Grid {
			more = fmt.Sprintf(" (the array has %d)", r.Sample.Grid)
		}
		row("GPU", "%s: %d chunks in a call%s: %.3g ms, %.3g GB/s decoded", source(w.From, g.Name), w.Chunks, more, w.MS, w.GBPerS)
	}
	if g.GBPerS > 0 && g.From == probe.Predicted {
		row("GPU", "%s: %.3g GB/s decoded by the engine's waves", source(g.From, g.Name), g.GBPerS)
	}
}

// source says whether a figure was measured.
func source(from, gpu string) string {
	if from == probe.Predicted {
		return "predicted" + predicted
	}
	return from + ", " + gpu
}

// probeStages is the way of a batch, with the slowest stage.
func probeStages(r *probe.Result) (rows []byte) {
	if len(r.Stages) == 0 {
		return nil
	}
	rows = fmt.Appendf(rows, "\nstage of f32 batches %s\tGB/s\tof\tf32 GB/s\t\n", where(r.Target))
	for _, s := range r.Stages {
		note := s.From
		if s.From == probe.Predicted {
			note += predicted
		}
		if s.Name == r.Bound {
			note += ", binds"
		}
		rows = fmt.Appendf(rows, "%s\t%.3g\t%s\t%.3g\t%s\n", s.Name, s.GBPerS, s.Of, s.F32GBPerS, note)
	}
	return rows
}

func where(target string) string {
	if target == "host" {
		return "on the host"
	}
	return "to the GPU"
}

// probeTable is a row a codec, best first.
func probeTable(r *probe.Result) (rows []byte) {
	if len(r.Table) == 0 {
		return nil
	}
	rows = fmt.Appendf(rows, "\ncodec\tratio\tsize\thost GB/s a core\tGPU GB/s\tf32 GB/s to the GPU\tbound by\tf32 GB/s on the host\tbound by\n")
	for _, c := range r.Table {
		mark := ""
		switch c.GPUFrom {
		case probe.Predicted:
			mark = predicted
		case probe.ByHost:
			mark = " (host)"
		}
		core, gpu := "-", "-"
		if c.HostGBPerSCore > 0 {
			core = fmt.Sprintf("%.2f", c.HostGBPerSCore)
		}
		if c.GPUGBPerS > 0 {
			gpu = fmt.Sprintf("%.3g%s", c.GPUGBPerS, mark)
		}
		rows = fmt.Appendf(rows, "%s\t%.2f\t%.0f %%\t%s\t%s\t%.3g%s\t%s\t%.3g\t%s\n",
			c.Codec, c.Ratio, c.Size*100, core, gpu, c.F32GBPerS, predicted, c.Bound, c.HostF32GBPerS, c.HostBound)
	}
	return rows
}

// probeEnd is the advice, and where what is predicted comes from.
func probeEnd(r *probe.Result) []byte {
	rows := fmt.Appendf(nil, "\nadvice: %s\n", r.Advice.Text)
	if len(r.Table) == 0 || len(r.GPU.Sources) == 0 { // nothing was predicted
		return rows
	}
	rows = fmt.Appendf(rows, "%s predicted from rates of one GPU, %s; all else is measured here:\n", predicted, r.GPU.Sources[0].GPU)
	var files []string
	for _, s := range r.GPU.Sources {
		if file := fmt.Sprintf("  %s (%.10s, %s)\n", s.File, s.Date, s.Commit); !slices.Contains(files, file) {
			files = append(files, file)
			rows = append(rows, file...)
		}
	}
	return rows
}

func byteSize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.3g KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
