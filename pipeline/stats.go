package pipeline

import (
	"fmt"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// Stage is what one stage of the pipeline has done so far.
type Stage struct {
	Name  string
	Count int64         // what it counts stands in the table of Stats.String
	Busy  time.Duration // summed over the goroutines of the stage
	In    int64         // bytes taken in
	Out   int64         // bytes given on
}

// Stats is a snapshot of a pipeline's counters since Open.
type Stats struct {
	Plan     Stage // samples
	Dispatch Stage // waves made of planned samples
	Locate   Stage // shard indexes and sizes read
	Read     Stage // coalesced reads
	Issue    Stage // waves handed to a GPU
	Copy     Stage // pieces copied to a GPU
	// GPUDecode is waves of which a GPU decodes chunks. Busy is time of the GPU: that in
	// which it decodes for one wave or more, from when a wave's bytes are there until
	// its chunks are decoded. Waves that are decoded beside each other, as they
	// should be, share it, and so does whatever else the GPU does meanwhile.
	GPUDecode Stage
	Decode    Stage // chunks, wherever they are decoded; Busy is the host's alone
	Assemble  Stage // jobs: one chunk into one sample
	SlotWait  Stage // times a batch waited for a free slot
	NextWait  Stage // times Next waited for a batch

	Samples, Batches       int64
	SamplesFailed          int64
	Waves                  int64
	ChunkUses              int64 // (sample, chunk) pairs
	ChunksDecoded          int64
	ChunksReused           int64 // uses served by a chunk decoded before
	ChunksMissing          int64 // uses of chunks that are not stored: fill value
	CompressedHits         int64 // decoded from stored bytes that were kept on a GPU
	ChunksOnHost           int64 // that the host decoded for a GPU, which has no kernel for them or refused them
	ChunksRefused          int64 // that a GPU's decoder refused: odd ones, or corrupt; the host had the last word
	IndexHits, IndexMisses int64
	HostBytes, DeviceBytes int64 // taken at Open
	PeakDecodedBytes       int64 // most of the decoded cache in use
	MappedBytes            int64 // of the page cache, registered now
}

// Stages lists the stages that there are, in the order of the data: those of a GPU
// where there is one.
func (s Stats) Stages() []Stage {
	list := []Stage{s.Plan, s.Dispatch, s.Locate, s.Read}
	if s.DeviceBytes > 0 {
		list = append(list, s.Issue, s.Copy, s.GPUDecode)
	}
	return append(list, s.Decode, s.Assemble, s.SlotWait, s.NextWait)
}

// String is a table of the stages.
func (s Stats) String() string {
	table := []byte("stage\tcount\tbusy ms\tin MB\tout MB\tMB/s busy\t\n")
	for _, st := range s.Stages() {
		rate := "-"
		if st.Out > 0 && st.Busy > 0 {
			rate = fmt.Sprintf("%.0f", float64(st.Out)/1e6/st.Busy.Seconds())
		}
		table = fmt.Appendf(table, "%s\t%d\t%.1f\t%.1f\t%.1f\t%s\t\n", st.Name, st.Count,
			float64(st.Busy.Microseconds())/1e3, float64(st.In)/1e6, float64(st.Out)/1e6, rate)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	w.Write(table) //nolint:errcheck // a strings.Builder does not fail
	w.Flush()      //nolint:errcheck // nor here
	return b.String() + fmt.Sprintf("%d samples in %d batches, %d failed; %d chunk uses: %d decoded, %d reused, %d missing\n",
		s.Samples, s.Batches, s.SamplesFailed, s.ChunkUses, s.ChunksDecoded, s.ChunksReused, s.ChunksMissing)
}

// stageCounter is a Stage that many goroutines add to.
type stageCounter struct{ count, busy, in, out atomic.Int64 }

func (c *stageCounter) add(count int64, busy time.Duration, in, out int64) {
	c.count.Add(count)
	c.busy.Add(int64(busy))
	c.in.Add(in)
	c.out.Add(out)
}

func (c *stageCounter) stage(name string) Stage {
	return Stage{name, c.count.Load(), time.Duration(c.busy.Load()), c.in.Load(), c.out.Load()}
}

// counters are the live numbers behind Stats.
type counters struct {
	plan, dispatch, locate, read, issue, copy, gpuDecode, decode, assemble, slotWait, nextWait stageCounter

	samples, batches, failed, waves                                                               atomic.Int64
	uses, decoded, reused, missing, onHost, refused                                               atomic.Int64
	indexHits, indexMisses, hostBytes, deviceBytes, peakUsed, mappedBytes, framed, compressedHits atomic.Int64
}

func (c *counters) snapshot() Stats {
	return Stats{
		Plan: c.plan.stage("plan"), Dispatch: c.dispatch.stage("dispatch"), Locate: c.locate.stage("locate"), Read: c.read.stage("read"),
		Issue: c.issue.stage("issue"), Copy: c.copy.stage("copy"), GPUDecode: c.gpuDecode.stage("gpu decode"), Decode: c.decode.stage("decode"), Assemble: c.assemble.stage("assemble"),
		SlotWait: c.slotWait.stage("slot wait"), NextWait: c.nextWait.stage("next wait"),
		Samples: c.samples.Load(), Batches: c.batches.Load(), SamplesFailed: c.failed.Load(), Waves: c.waves.Load(),
		ChunkUses: c.uses.Load(), ChunksDecoded: c.decoded.Load(), ChunksReused: c.reused.Load(), ChunksMissing: c.missing.Load(),
		ChunksOnHost: c.onHost.Load(), ChunksRefused: c.refused.Load(),
		IndexHits: c.indexHits.Load(), IndexMisses: c.indexMisses.Load(),
		HostBytes: c.hostBytes.Load(), DeviceBytes: c.deviceBytes.Load(), PeakDecodedBytes: c.peakUsed.Load(), MappedBytes: c.mappedBytes.Load(), CompressedHits: c.compressedHits.Load(),
	}
}
