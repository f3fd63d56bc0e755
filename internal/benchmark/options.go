package benchmark

import (
	"cmp"
	"path"
	"time"

	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// Options override the scenario; a zero value leaves its setting alone.
type Options struct {
	// Root takes the place of the scenario's store_root.
	Root string

	Device          string
	Reuse           string
	Decoder         string
	Reader          string
	CompressedBytes int64
	DeviceBytes     int64
	MappedBytes     int64
	HostBytes       int64
	DecodedBytes    int64
	Batches         int
	Warmup          int // -1 is none
	Workers         int
	Readers         int
	Lookahead       int

	// BareTime is how long the bare decoder runs; 0 is 1.5 s, long against the start
	// of goroutines.
	BareTime time.Duration

	// Check compares every byte of the timed batches with a plain read.
	Check bool
	// Report is told how far the phases are; total is 0 where it is not known.
	Report func(phase string, done, total int64)
}

func (o *Options) say(phase string, done, total int64) {
	if o.Report != nil {
		o.Report(phase, done, total)
	}
}

// config is the engine's configuration for a scenario.
func (o *Options) config(s *scenario.Scenario) (pipeline.Config, error) {
	field := pipeline.Field{Name: "image", Shape: make([]int, len(s.Sampling.SampleShape))}
	for i, n := range s.Sampling.SampleShape {
		field.Shape[i] = int(n)
	}
	if s.Pipeline.DType != "" {
		d, err := nd.ParseDType(s.Pipeline.DType)
		if err != nil {
			return pipeline.Config{}, nd.Errorf(nd.ErrConfig, "pipeline.dtype: %w", err)
		}
		field.DType = d
	}
	reuse, err := pipeline.ParseReuse(cmp.Or(o.Reuse, s.Pipeline.Reuse, "window"))
	if err != nil {
		return pipeline.Config{}, err
	}
	c := pipeline.Config{
		Fields:          []pipeline.Field{field},
		BatchSize:       s.Sampling.SamplesPerBatch,
		Device:          pipeline.Device(cmp.Or(o.Device, "cpu")),
		Readers:         cmp.Or(o.Readers, s.Pipeline.NIOThreads),
		Workers:         cmp.Or(o.Workers, s.Pipeline.Workers),
		Lookahead:       cmp.Or(o.Lookahead, s.Pipeline.LookaheadSamples),
		Slots:           s.Pipeline.Slots,
		HostBytes:       cmp.Or(o.HostBytes, s.Pipeline.HostBytes),
		DecodedBytes:    cmp.Or(o.DecodedBytes, s.Pipeline.DecodedBytes),
		CompressedBytes: o.CompressedBytes,
		MappedBytes:     o.MappedBytes,
		Reader:          o.Reader,
		Decoder:         o.Decoder,
		Reuse:           reuse,
	}
	if c.Device != "cpu" {
		c.DeviceBytes = cmp.Or(o.DeviceBytes, int64(s.Pipeline.MaxGPUMemoryMB*(1<<20)))
	}
	root := cmp.Or(o.Root, s.Dataset.StoreRoot)
	for _, name := range s.Dataset.Paths() {
		c.Arrays = append(c.Arrays, pipeline.ArrayRef{URI: at(root, name)})
	}
	return c, c.Validate()
}

// at is a path below the root; URIs and absolute paths stand for themselves.
func at(root, name string) string {
	if root == "" || path.IsAbs(name) || hasScheme(name) {
		return name
	}
	return root + "/" + name
}

func hasScheme(name string) bool {
	for i, c := range name {
		if c == ':' {
			return i > 0 && len(name) > i+2 && name[i:i+3] == "://"
		}
		if c == '/' {
			return false
		}
	}
	return false
}
