package loader

import (
	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// numbers is the loader's Stats as the agent takes them.
func (l *Loader) numbers() agentapi.Stats {
	l.mu.Lock()
	at, s := l.mu.at, l.mu.pipe.Stats()
	var r Report
	if n := len(l.mu.reports); n > 0 {
		r = l.mu.reports[n-1]
	}
	total, world := l.mu.total, l.id.World
	l.mu.Unlock()
	out := agentapi.Stats{
		"epoch": float64(at.Epoch), "step": float64(at.Step), "steps": float64(at.Stream.Steps()),
		"samples_total": float64(total.samples), "batches_total": float64(total.batches), "bytes_total": float64(total.bytes),
		"epoch_delivered": float64(r.Delivered), "epoch_skipped": float64(r.Skipped), "epoch_filled": float64(r.Filled),
		"samples_failed_total": float64(s.SamplesFailed),
		"chunk_uses_total":     float64(s.ChunkUses), "chunks_decoded_total": float64(s.ChunksDecoded),
		"chunks_reused_total": float64(s.ChunksReused), "chunks_missing_total": float64(s.ChunksMissing),
		"chunks_on_host_total": float64(s.ChunksOnHost), "chunks_refused_total": float64(s.ChunksRefused),
		"gpu_decode_seconds_total": s.GPUDecode.Busy.Seconds(), "gpu_decoded_bytes_total": float64(s.GPUDecode.Out),
		"read_bytes_total": float64(s.Read.Out), "decoded_bytes_total": float64(s.Decode.Out),
		"next_wait_seconds_total": s.NextWait.Busy.Seconds(), "slot_wait_seconds_total": s.SlotWait.Busy.Seconds(),
		"host_bytes": float64(s.HostBytes), "device_bytes": float64(s.DeviceBytes), "mapped_bytes": float64(s.MappedBytes),
	}
	if here, ok := l.Locality(); ok {
		out["lane_samples_total"], out["lane_samples_again_total"] = float64(here.Samples), float64(here.Again)
	}
	if share, ok := homeShare(at, world); ok {
		out["locality"] = share
	}
	return out
}

// homeShare is the share of a batch's samples that are read on the home node of their
// block; false where samples have no home.
func homeShare(at sampler.Resume, world int) (float64, bool) {
	if at.Stream.Nodes == 0 || at.Step >= at.Stream.Steps() {
		return 0, false
	}
	e := at.Stream.Epoch(at.Epoch)
	return float64(e.HomeReads(at.Step, world)) / float64(e.Span(at.Step).Len()), true
}

// totals is what Next has returned since New, redone steps each time.
type totals struct{ samples, batches, bytes int64 }

func (t *totals) add(b *pipeline.Batch) {
	t.samples += samplesOf(b)
	t.batches++
	for i := range b.Fields() {
		t.bytes += b.Bytes(i)
	}
}
