package session

import (
	"sync/atomic"

	"github.com/headrace/headrace/pipeline"
)

// stageStats is pipeline.Stage as Python sees it.
type stageStats struct {
	Name     string  `json:"name"`
	Count    int64   `json:"count"`
	BusyMS   float64 `json:"busy_ms"`
	BytesIn  int64   `json:"bytes_in"`
	BytesOut int64   `json:"bytes_out"`
}

// stats is pipeline.Stats as Python sees it.
type stats struct {
	placed
	Stages           []stageStats `json:"stages"`
	Samples          int64        `json:"samples"`
	Batches          int64        `json:"batches"`
	SamplesFailed    int64        `json:"samples_failed"`
	Waves            int64        `json:"waves"`
	ChunkUses        int64        `json:"chunk_uses"`
	ChunksDecoded    int64        `json:"chunks_decoded"`
	ChunksReused     int64        `json:"chunks_reused"`
	ChunksMissing    int64        `json:"chunks_missing"`
	ChunksOnHost     int64        `json:"chunks_on_host"` // decoded by the host for a GPU
	ChunksRefused    int64        `json:"chunks_refused"` // by the GPU's decoders
	CompressedHits   int64        `json:"compressed_hits"`
	IndexHits        int64        `json:"index_hits"`
	IndexMisses      int64        `json:"index_misses"`
	HostBytes        int64        `json:"host_bytes"`
	DeviceBytes      int64        `json:"device_bytes"`
	MappedBytes      int64        `json:"mapped_bytes"` // registered now
	PeakDecodedBytes int64        `json:"peak_decoded_bytes"`
	BatchesHeld      int64        `json:"batches_held"` // by the user
}

// loaderStats are those of a loader.
type loaderStats struct {
	stats
	LaneLocality *float64 `json:"lane_locality"` // share of an async rank's samples whose storage block it had read before; null: not known
	Waiting      string   `json:"waiting"`       // why nothing new is decided in its job; empty: it is
	WaitingS     float64  `json:"waiting_s"`     // for how long its job has given it nothing to deliver; 0: it has
}

func statsOf(where placed, s pipeline.Stats, held *atomic.Int64) stats {
	out := stats{
		placed:      where,
		BatchesHeld: held.Load(),
		Samples:     s.Samples, Batches: s.Batches, SamplesFailed: s.SamplesFailed, Waves: s.Waves,
		ChunkUses: s.ChunkUses, ChunksDecoded: s.ChunksDecoded, ChunksReused: s.ChunksReused, ChunksMissing: s.ChunksMissing,
		ChunksOnHost: s.ChunksOnHost, ChunksRefused: s.ChunksRefused, CompressedHits: s.CompressedHits,
		IndexHits: s.IndexHits, IndexMisses: s.IndexMisses,
		HostBytes: s.HostBytes, DeviceBytes: s.DeviceBytes, MappedBytes: s.MappedBytes, PeakDecodedBytes: s.PeakDecodedBytes,
	}
	for _, st := range s.Stages() {
		out.Stages = append(out.Stages, stageStats{st.Name, st.Count, st.Busy.Seconds() * 1e3, st.In, st.Out})
	}
	return out
}
