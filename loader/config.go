package loader

import (
	"errors"
	"math"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
	"github.com/headrace/headrace/sampler"
)

// Config is what all ranks of a job must agree on, and how each makes its
// batches. Fields at their zero value take the default named beside them.
type Config struct {
	// Pipeline makes the batches. Its BatchSize is the loader's to set and must be
	// 0. Defaults of Workers and DecodedBytes, on a GPU of Workers and MappedBytes, are
	// this rank's share of its node.
	Pipeline pipeline.Config

	// BatchSize is the number of samples a rank gets in a batch, Global that of all
	// ranks together; one of them is given. A Global that is no multiple of the
	// number of ranks gives some ranks one sample more than others.
	BatchSize int
	Global    int64

	Seed    uint64
	Shuffle bool // false: samples come in the order of the source
	// Tail is what becomes of the last samples of an epoch. With sampler.TailMask all
	// batches of all ranks have one shape; rows beyond the samples have the ID Padding
	// and weight 0, and so have samples that pipeline.Skip leaves out.
	Tail sampler.Tail
	// Block and Window shuffle by blocks, so that what is read at a time lies together:
	// whole blocks are shuffled, then the samples of each Window blocks in a row. Block
	// is the number of samples of a block; with 0 and a Window the blocks are those of
	// the source, which must be a sampler.Blocked. Window defaults to
	// sampler.DefaultWindow where Block is given.
	Block  int64
	Window int
	// Locality gives each node the samples of the same blocks in every epoch, as far as
	// equal shares allow, so that what it has cached stays useful. It needs blocks, and
	// the same number of ranks on every node. What a global batch holds is not changed.
	Locality bool
	// Replicas is the number of neighbouring ranks that get the same samples, as tensor
	// parallel ranks need. Default 1.
	Replicas int

	// DataDigest adds the digest of all bytes that were delivered to the report. It
	// reads every batch once more; those on a GPU are copied to the host for it.
	DataDigest bool

	// Name is that of the loader where the ranks' plans are compared: all ranks give
	// one loader the same name, and two loaders of a process different ones. Default
	// "loader".
	Name string
	// NoCheck leaves out the comparison of the ranks' plans where the identity names an
	// agent: for a loader that not all ranks open.
	NoCheck bool
	// Agent is a connection to the agent that the identity names, for who has one. Its owner
	// closes it, after the loader. nil: the loader makes one of its own.
	Agent *agentapi.Client
	// Fence decides when a step may be returned; nil lets every step through.
	Fence Fence
	// Lanes hands out the positions that this rank returns, batches of at most BatchSize
	// that follow each other, for jobs whose ranks go each at its own pace. A batch is
	// done once it is committed (Loader.Commit). Not with Global, Fence, Locality,
	// Replicas, DataDigest, or another Tail than short.
	Lanes Lanes
	// CommitOnRelease commits a batch when it is released for the last time, and all
	// that were returned when the lane has no more than these. Else the caller commits.
	CommitOnRelease bool
}

// Validate reports every violation that can be seen without the job and without
// I/O, joined; each matches nd.ErrConfig and names its field.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, nd.Errorf(nd.ErrConfig, format, args...))
		}
	}
	check(c.BatchSize >= 0, "BatchSize is %d, must be at least 1", c.BatchSize)
	check(c.Global >= 0, "Global is %d, must be at least 1", c.Global)
	check(c.BatchSize != 0 || c.Global != 0, "BatchSize and Global are both 0: give one of them")
	check(c.BatchSize == 0 || c.Global == 0, "BatchSize is %d and Global is %d: give one of them", c.BatchSize, c.Global)
	check(c.Tail <= sampler.TailMask, "Tail is %d, must be short, drop or mask", c.Tail)
	check(c.Block >= 0, "Block is %d, must be at least 1", c.Block)
	check(c.Window >= 0, "Window is %d, must be at least 1", c.Window)
	check(c.Replicas >= 0, "Replicas is %d, must be at least 1", c.Replicas)
	check(c.Lanes == nil || c.Global == 0, "Global is %d: with Lanes each rank has batches of its own, give BatchSize", c.Global)
	check(c.Lanes == nil || c.Fence == nil, "Fence and Lanes are both given: ranks keep step, or they do not")
	check(c.Lanes == nil || !c.Locality && c.Replicas <= 1 && !c.DataDigest && c.Tail == sampler.TailShort,
		"Lanes with Locality %v, Replicas %d, DataDigest %v, Tail %s: these are of ranks that keep step", c.Locality, c.Replicas, c.DataDigest, c.Tail)
	check(c.Lanes != nil || !c.CommitOnRelease, "CommitOnRelease without Lanes")
	check(c.Pipeline.BatchSize == 0, "Pipeline.BatchSize is %d, must be 0: the loader sets it", c.Pipeline.BatchSize)
	// How many samples a rank's batch has is known with the world; what hangs on it
	// is checked by pipeline.Open.
	p := c.Pipeline
	p.BatchSize = 1
	return errors.Join(append(errs, p.Validate())...)
}

// Stream is the sequence of batches that New makes of the config: what its PlanHash
// covers, all ranks of a job must agree on.
func (c *Config) Stream(source sampler.Source, id rank.Identity) (sampler.Stream, error) {
	return c.stream(source, id)
}

// stream is the sequence of batches that the config describes for a world.
func (c *Config) stream(source sampler.Source, id rank.Identity) (sampler.Stream, error) {
	world := c.world(id)
	s := sampler.Stream{
		N: source.Len(), Global: c.Global, Seed: c.Seed, Fingerprint: source.Fingerprint(),
		Shuffle: c.Shuffle, Tail: c.Tail, Replicas: c.Replicas,
	}
	if err := c.blocks(source, &s); err != nil {
		return s, err
	}
	if c.Locality {
		if s.Nodes = id.Nodes; world%s.Nodes != 0 || id.Node != id.Rank/(world/s.Nodes) {
			return s, nd.Errorf(nd.ErrConfig, "Locality: rank %d of %d is on node %d of %d: each node must have as many ranks, in a row", id.Rank, world, id.Node, s.Nodes)
		}
	}
	if err := s.CheckWorld(world); err != nil {
		return s, err
	}
	if s.Global == 0 {
		groups := world / max(1, c.Replicas)
		global, ok := nd.Product([]int64{int64(c.BatchSize), int64(groups)})
		if !ok {
			return s, nd.Errorf(nd.ErrConfig, "BatchSize %d times %d ranks does not fit 63 bits", c.BatchSize, groups)
		}
		s.Global = global
	}
	return s, s.Validate()
}

// world is the number of ranks that share a global batch.
func (c *Config) world(id rank.Identity) int {
	if c.Lanes != nil {
		return 1
	}
	return id.World
}

// blocks is how the stream shuffles by blocks, if it does.
func (c *Config) blocks(source sampler.Source, s *sampler.Stream) error {
	s.Block, s.Window = c.Block, c.Window
	switch {
	case c.Block > 0 && c.Window == 0:
		s.Window = sampler.DefaultWindow
	case c.Block == 0 && c.Window > 0:
		if blocked, ok := source.(sampler.Blocked); ok {
			s.Blocks = blocked.Blocks()
		}
		if s.Blocks == nil {
			return nd.Errorf(nd.ErrConfig, "Window is %d and Block is 0, but the source tells no storage blocks: give Block, or take a grid by shard", c.Window)
		}
	}
	return nil
}

// mostRows is the most rows that one rank gets of a global batch.
func mostRows(s sampler.Stream, world int) (int, error) {
	rows := s.MaxRows(world)
	if rows > math.MaxInt32 {
		return 0, nd.Errorf(nd.ErrConfig, "a global batch of %d samples over %d ranks is %d a rank, must be below 2^31", s.Global, world, rows)
	}
	return int(rows), nil
}

// checkSource finds out at once whether the source's samples are what the fields
// take, by its first one.
func (c *Config) checkSource(source sampler.Source) error {
	if source.Len() == 0 {
		return nil
	}
	fields := c.Pipeline.Fields
	crops := source.Sample(0).Crops
	if len(crops) != len(fields) {
		return nd.Errorf(nd.ErrShape, "a sample of the source has %d crops, Pipeline.Fields %d fields: one crop per field is wanted", len(crops), len(fields))
	}
	for i, crop := range crops {
		if crop.Array < 0 || crop.Array >= len(c.Pipeline.Arrays) {
			return nd.Errorf(nd.ErrShape, "field %q: the source crops array %d, Pipeline.Arrays has %d", fields[i].Name, crop.Array, len(c.Pipeline.Arrays))
		}
		if !sameShape(crop.Box, fields[i].Shape) {
			return nd.Errorf(nd.ErrShape, "field %q: the source's crops have shape %v, Pipeline.Fields[%d].Shape is %v", fields[i].Name, crop.Box.Shape(), i, fields[i].Shape)
		}
	}
	return nil
}

func sameShape(box nd.Box, shape []int) bool {
	if len(box) != len(shape) {
		return false
	}
	for i, s := range box {
		if s.Len() != int64(shape[i]) {
			return false
		}
	}
	return true
}
