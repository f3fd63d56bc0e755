package benchmark

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/pipeline"
)

// Result is what bench prints; its JSON names are a promise to scripts.
type Result struct {
	Scenario string             `json:"scenario"`
	Config   Config             `json:"config"`
	Notes    []string           `json:"notes,omitempty"`
	Echo     *scenario.Scenario `json:"scenario_keys"`

	Samples int64   `json:"samples"`
	Batches int64   `json:"batches"`
	WallS   float64 `json:"wall_s"`

	SamplesPerS     float64 `json:"samples_per_s"`
	GBPerS          float64 `json:"gb_per_s"`         // of batches
	DecodedGBPerS   float64 `json:"decoded_gb_per_s"` // of decoded chunks
	ReadGBPerS      float64 `json:"read_gb_per_s"`    // of stored bytes, through the ring
	CopiedGBPerS    float64 `json:"copied_gb_per_s"`  // of bytes copied to the GPU
	Amplification   float64 `json:"amplification"`    // decoded bytes / bytes of the crops
	ChunksPerSample float64 `json:"chunks_per_sample"`
	USPerSample     float64 `json:"us_per_sample"`
	AllocsPerSample float64 `json:"allocs_per_sample"`

	HitRates HitRates `json:"hit_rates"`

	// GPUDecodeMSPerGB is time of the GPU in which it decodes for one wave or more
	// (pipeline.Stats.GPUDecode), for each GB that it decodes: what decoding costs it.
	// Waves beside each other share it, so it is not the latency of a wave, and work of
	// other kinds beside them makes it longer. 0 where a GPU decodes nothing.
	GPUDecodeMSPerGB float64 `json:"gpu_decode_ms_per_gb"`
	ChunksOnHost     int64   `json:"chunks_on_host"` // decoded by the host for a GPU
	ChunksRefused    int64   `json:"chunks_refused"` // by the GPU's decoders

	OpenMS       float64 `json:"open_ms"`
	FirstBatchMS float64 `json:"first_batch_ms"` // from the call of Open on

	HostBytes   int64 `json:"host_bytes"` // taken by the engine
	DeviceBytes int64 `json:"device_bytes"`
	MappedBytes int64 `json:"mapped_bytes"` // of the page cache, registered
	RSSBytes    int64 `json:"rss_bytes"`    // most that the process held

	Stages []Stage `json:"stages"`

	// The codecs alone over the same chunks with as many goroutines; 0 where chunks
	// are stored raw.
	BareGBPerS     float64 `json:"bare_gb_per_s"`
	DecodeVsBare   float64 `json:"decode_vs_bare"`     // the decode stage's rate, per busy worker
	EndToEndVsBare float64 `json:"end_to_end_vs_bare"` // decoded_gb_per_s, of the whole run

	Check *Check `json:"check"`
}

// Config echoes the settings that ran, defaults filled in.
type Config struct {
	Device       string `json:"device"`
	DType        string `json:"dtype"`
	Reuse        string `json:"reuse"`
	Batch        int    `json:"batch_size"`
	Lookahead    int    `json:"lookahead"`
	Slots        int    `json:"slots"`
	Readers      int    `json:"readers"`
	Workers      int    `json:"workers"`
	HostBytes    int64  `json:"host_bytes"`
	DecodedBytes int64  `json:"decoded_bytes"`
	Arrays       int    `json:"arrays"`
	Zstd         string `json:"zstd"`
}

// HitRates are shares of 1.
type HitRates struct {
	Decoded    float64 `json:"decoded"`    // uses of chunks that were decoded before
	Index      float64 `json:"index"`      // shard indexes found in memory
	Compressed float64 `json:"compressed"` // decodes from stored bytes that were kept on a GPU
}

// Stage is one stage of the engine over the timed batches.
type Stage struct {
	Name     string  `json:"name"`
	Count    int64   `json:"count"`
	BusyMS   float64 `json:"busy_ms"` // summed over its goroutines
	InBytes  int64   `json:"in_bytes"`
	OutBytes int64   `json:"out_bytes"`
}

// Check is the outcome of the comparison with a plain read.
type Check struct {
	OK      bool  `json:"ok"`
	Samples int64 `json:"samples"`
	Bytes   int64 `json:"bytes"`
}

func (r *run) result(p *pipeline.Pipeline, s pipeline.Stats, t timing) *Result {
	_, timed := r.samples()
	wall := t.wall.Seconds()
	n := float64(len(timed))
	c := p.Config()
	result := &Result{
		Scenario: r.scenario.Name, Echo: r.scenario, Notes: append(r.scenario.Notes(), r.arrays.notes()...),
		Config: echo(c, r.arrays), Samples: int64(len(timed)), Batches: s.Batches, WallS: wall,
		SamplesPerS: n / wall, GBPerS: float64(t.bytes) / 1e9 / wall,
		DecodedGBPerS:   float64(s.Decode.Out) / 1e9 / wall,
		ReadGBPerS:      float64(s.Read.Out) / 1e9 / wall,
		CopiedGBPerS:    float64(s.Copy.Out) / 1e9 / wall,
		Amplification:   float64(s.Decode.Out) / float64(max(r.useful(timed), 1)),
		ChunksPerSample: float64(s.ChunkUses) / n,
		USPerSample:     wall * 1e6 / n,
		HitRates:        HitRates{share(s.ChunksReused, s.ChunkUses), share(s.IndexHits, s.IndexHits+s.IndexMisses), share(s.CompressedHits, s.ChunksDecoded)},
		HostBytes:       s.HostBytes, DeviceBytes: s.DeviceBytes, MappedBytes: s.MappedBytes,
	}
	if s.GPUDecode.Out > 0 {
		result.GPUDecodeMSPerGB = ms(s.GPUDecode.Busy) / (float64(s.GPUDecode.Out) / 1e9)
	}
	result.ChunksOnHost, result.ChunksRefused = s.ChunksOnHost, s.ChunksRefused
	result.Stages = Stages(s)
	return result
}

// Stages is the table of stages in the form of the JSON.
func Stages(s pipeline.Stats) (list []Stage) {
	for _, st := range s.Stages() {
		list = append(list, Stage{st.Name, st.Count, ms(st.Busy), st.In, st.Out})
	}
	return list
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// since is what happened between two snapshots.
func since(now, then pipeline.Stats) pipeline.Stats {
	minus := func(a, b pipeline.Stage) pipeline.Stage {
		return pipeline.Stage{Name: a.Name, Count: a.Count - b.Count, Busy: a.Busy - b.Busy, In: a.In - b.In, Out: a.Out - b.Out}
	}
	d := now
	d.Plan, d.Dispatch = minus(now.Plan, then.Plan), minus(now.Dispatch, then.Dispatch)
	d.Locate, d.Read = minus(now.Locate, then.Locate), minus(now.Read, then.Read)
	d.Issue, d.Copy, d.GPUDecode = minus(now.Issue, then.Issue), minus(now.Copy, then.Copy), minus(now.GPUDecode, then.GPUDecode)
	d.Decode, d.Assemble = minus(now.Decode, then.Decode), minus(now.Assemble, then.Assemble)
	d.SlotWait, d.NextWait = minus(now.SlotWait, then.SlotWait), minus(now.NextWait, then.NextWait)
	d.Samples -= then.Samples
	d.Batches -= then.Batches
	d.Waves -= then.Waves
	d.ChunkUses -= then.ChunkUses
	d.ChunksDecoded -= then.ChunksDecoded
	d.ChunksReused -= then.ChunksReused
	d.ChunksMissing -= then.ChunksMissing
	d.ChunksOnHost -= then.ChunksOnHost
	d.ChunksRefused -= then.ChunksRefused
	d.CompressedHits -= then.CompressedHits
	d.IndexHits -= then.IndexHits
	d.IndexMisses -= then.IndexMisses
	return d
}

// Print writes the result for people.
func (r *Result) Print(w io.Writer) error {
	return errors.Join(aligned(w, 0, r.rows()), aligned(w, tabwriter.AlignRight, r.stageRows()))
}

// aligned writes rows whose cells end in tabs, in columns.
func aligned(w io.Writer, flags uint, rows []byte) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', flags)
	_, err := t.Write(rows)
	return errors.Join(err, t.Flush())
}

func (r *Result) rows() (rows []byte) {
	row := func(name, format string, args ...any) {
		rows = fmt.Appendf(rows, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	c := r.Config
	row("scenario", "%s: %d arrays, %d batches of %d, %s on %s", r.Scenario, c.Arrays, r.Batches, c.Batch, c.DType, c.Device)
	row("rate", "%.1f samples/s, %.3f GB/s of batches", r.SamplesPerS, r.GBPerS)
	row("decoded", "%.3f GB/s, %.2f times the bytes of the crops", r.DecodedGBPerS, r.Amplification)
	row("chunks", "%.2f a sample, %.1f %% of the uses served without decoding", r.ChunksPerSample, 100*r.HitRates.Decoded)
	row("cost", "%.1f us and %.2f allocations a sample", r.USPerSample, r.AllocsPerSample)
	row("first batch", "%.1f ms after the call of Open (Open alone %.1f ms)", r.FirstBatchMS, r.OpenMS)
	row("memory", "engine %.1f MiB, process at most %.1f MiB", float64(r.HostBytes)/(1<<20), float64(r.RSSBytes)/(1<<20))
	if r.DeviceBytes > 0 {
		row("gpu", "%.1f MiB taken, %.1f MiB of the page cache registered, %.2f GB/s copied to it", float64(r.DeviceBytes)/(1<<20), float64(r.MappedBytes)/(1<<20), r.CopiedGBPerS)
	}
	if r.GPUDecodeMSPerGB > 0 {
		row("gpu decode", "%.2f ms of the GPU a decoded GB: %.1f GB/s while it decodes", r.GPUDecodeMSPerGB, 1e3/r.GPUDecodeMSPerGB)
	}
	if r.ChunksOnHost+r.ChunksRefused > 0 {
		row("on the host", "%d chunks, of which the GPU had refused %d", r.ChunksOnHost, r.ChunksRefused)
	}
	if r.BareGBPerS > 0 {
		row("bare decoder", "%.3f GB/s; decode stage at %.0f %%, the whole run at %.0f %% of it", r.BareGBPerS, 100*r.DecodeVsBare, 100*r.EndToEndVsBare)
	}
	if r.Check != nil {
		row("check", "%d samples, %d bytes: all equal to a plain read", r.Check.Samples, r.Check.Bytes)
	}
	for _, note := range r.Notes {
		row("note", "%s", note)
	}
	return rows
}

func (r *Result) stageRows() []byte {
	rows := []byte("\nstage\tcount\tbusy ms\tin MB\tout MB\t\n")
	for _, s := range r.Stages {
		rows = fmt.Appendf(rows, "%s\t%d\t%.1f\t%.1f\t%.1f\t\n", s.Name, s.Count, s.BusyMS, float64(s.InBytes)/1e6, float64(s.OutBytes)/1e6)
	}
	return rows
}
