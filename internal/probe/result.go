package probe

import "time"

// Result is what probe prints; its JSON names are a promise to scripts.
type Result struct {
	URI        string   `json:"uri"`
	ZarrFormat int      `json:"zarr_format"`
	Shape      []int64  `json:"shape"`
	DType      string   `json:"dtype"`
	Chunks     []int64  `json:"chunks"`
	Shards     []int64  `json:"shards"` // null where there are none
	Codecs     []string `json:"codecs"` // in the order of encoding
	ChunkBytes int64    `json:"chunk_bytes"`
	Method     Method   `json:"method"`
	Notes      []string `json:"notes"`

	Sample    Sample           `json:"sample"`
	Sizes     *Sizes           `json:"sizes"`     // null where no chunk is stored
	Structure *StructureReport `json:"structure"` // null where nothing is known of it

	Storage Storage `json:"storage"`
	Host    Host    `json:"host"`
	GPU     GPU     `json:"gpu"`
	Crop    Crop    `json:"crop"`

	// The way of f32 batches to the GPU, or with the device cpu to the host's memory.
	Target    string      `json:"target"` // gpu or host
	Stages    []Stage     `json:"stages"`
	Bound     string      `json:"bound"` // the slowest stage, the files in the page cache
	F32GBPerS float64     `json:"f32_gb_per_s"`
	Table     []Candidate `json:"candidates"` // best first
	Advice    Advice      `json:"advice"`
}

// Where a figure comes from.
const (
	Here      = "measured here"
	Predicted = "predicted"
	ByHost    = "host" // the GPU has no kernels for it: the processor's rate, measured here
)

// Sample says what was looked at.
type Sample struct {
	Seed    uint64 `json:"seed"`
	Grid    int64  `json:"chunks_of_array"`
	Looked  int    `json:"looked_at"`
	Missing int    `json:"missing"` // not stored: they hold the fill value
	Failed  int    `json:"failed"`  // stored, and broken
	Failure string `json:"failure"` // the first of them, "" for none
	Read    int    `json:"read"`
	Bytes   int64  `json:"read_bytes"`
}

// Sizes is the distribution of decoded over stored bytes, chunk by chunk.
type Sizes struct {
	Ratio       float64 `json:"ratio"` // of all together
	RatioMin    float64 `json:"ratio_min"`
	RatioP10    float64 `json:"ratio_p10"`
	RatioMedian float64 `json:"ratio_median"`
	RatioP90    float64 `json:"ratio_p90"`
	RatioMax    float64 `json:"ratio_max"`
	StoredBytes float64 `json:"stored_bytes"` // of a chunk, mean
}

// StructureReport is a Structure as it is printed.
type StructureReport struct {
	Features

	Blocks         Blocks          `json:"blocks"` // of all chunks that were read
	BlocksPerChunk float64         `json:"blocks_per_chunk"`
	Sequences      int64           `json:"sequences"`
	PlainShare     float64         `json:"plain_share"` // decoded bytes that are only copied
	HuffmanTables  []HuffmanTables `json:"huffman_tables"`
	Treeless       int             `json:"treeless_blocks"`
	WindowBytes    int64           `json:"window_bytes"`
	Frames         int             `json:"frames"`
	Checksums      int             `json:"frames_with_checksum"`
	Sizeless       int             `json:"frames_without_size"`
	Shuffle        string          `json:"shuffle"`
}

// HuffmanTables counts tables by the bits of their longest code: 2^bits entries.
type HuffmanTables struct {
	Bits   int `json:"bits"`
	Tables int `json:"tables"`
}

// Storage is how fast the sampled chunks were read: first as they lay, then once more,
// from the page cache if they fit it, by all cores.
type Storage struct {
	FirstGBPerS float64 `json:"first_gb_per_s"`
	AgainGBPerS float64 `json:"again_gb_per_s"`
}

// GPU is what a GPU does with the chunks as they are stored.
type GPU struct {
	From    string   `json:"from"`    // measured here, predicted, or host
	Name    string   `json:"name"`    // of the GPU that was measured, here or for the rates
	Sources []Source `json:"sources"` // of the rates
	// GB/s: of copies to the GPU, of f32 elements assembled, and decoded, with as many
	// chunks in flight as the engine has. 0 where nothing is decoded, or not known.
	CopyGBPerS     float64 `json:"copy_gb_per_s"`
	CopyFrom       string  `json:"copy_from"`
	AssembleGBPerS float64 `json:"assemble_gb_per_s"`
	GBPerS         float64 `json:"gb_per_s"`
	Waves          []Wave  `json:"waves"`
}

// Wave is a call of the GPU's decoder.
type Wave struct {
	Chunks int     `json:"chunks"`
	MS     float64 `json:"ms"`
	GBPerS float64 `json:"gb_per_s"`
	From   string  `json:"from"`

	each time.Duration // of a call as the host saw it, 0 where it is predicted
}

// Stage is a part of the way from the store to the batch.
type Stage struct {
	Name      string  `json:"name"`
	GBPerS    float64 `json:"gb_per_s"` // of what it works on
	Of        string  `json:"of"`       // stored, decoded or f32 bytes
	F32GBPerS float64 `json:"f32_gb_per_s"`
	From      string  `json:"from"`
}

// Candidate is a row of the table: the array as it is, or written with other codecs.
type Candidate struct {
	Codec    string  `json:"codec"`
	AsStored bool    `json:"as_stored"`
	Ratio    float64 `json:"ratio"`
	Size     float64 `json:"size"` // of what is stored now
	// GB/s decoded: by one core, measured here, and by the GPU; 0 for nothing to decode.
	HostGBPerSCore float64 `json:"host_gb_per_s_core"`
	GPUGBPerS      float64 `json:"gpu_gb_per_s"`
	GPUFrom        string  `json:"gpu_from"`
	// GB/s of f32 batches without reuse, and what bounds them.
	F32GBPerS     float64 `json:"f32_gb_per_s"`
	Bound         string  `json:"bound"`
	HostF32GBPerS float64 `json:"host_f32_gb_per_s"`
	HostBound     string  `json:"host_bound"`
}

// Advice is what to do.
type Advice struct {
	Action string  `json:"action"` // keep or rewrite
	Codec  string  `json:"codec"`
	Faster float64 `json:"faster"` // times, on the target
	Size   float64 `json:"size"`   // of what is stored now
	Text   string  `json:"text"`
}

func (s *Structure) report() *StructureReport {
	if s.Chunks == 0 || s.Frames+s.Blocks.Compressed == 0 && s.Sequences == 0 {
		return nil
	}
	blocks := s.Blocks.Raw + s.Blocks.RLE + s.Blocks.Compressed
	return &StructureReport{
		Features: s.Features(), Blocks: s.Blocks, BlocksPerChunk: float64(blocks) / float64(s.Chunks), Sequences: s.Sequences,
		PlainShare: float64(s.Plain) / float64(max(1, s.Decoded)), HuffmanTables: s.tables(), Treeless: s.Treeless,
		WindowBytes: s.Window, Frames: s.Frames, Checksums: s.Checksums, Sizeless: s.Sizeless, Shuffle: s.Shuffle,
	}
}

// sizesOf works out the distribution from stored bytes, ascending.
func sizesOf(stored []int64, decoded int64) *Sizes {
	if len(stored) == 0 {
		return nil
	}
	total := int64(0)
	for _, n := range stored {
		total += n
	}
	// The smallest chunk has the greatest ratio.
	at := func(share float64) float64 {
		i := int(share * float64(len(stored)-1))
		return float64(decoded) / float64(max(1, stored[len(stored)-1-i]))
	}
	return &Sizes{
		Ratio: float64(decoded) * float64(len(stored)) / float64(max(1, total)), RatioMin: at(0), RatioP10: at(0.1), RatioMedian: at(0.5),
		RatioP90: at(0.9), RatioMax: at(1), StoredBytes: float64(total) / float64(len(stored)),
	}
}
