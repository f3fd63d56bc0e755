package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Scenario is one benchmark: a data set, the crops to take from it and the
// settings to take them with.
type Scenario struct {
	Name            string          `json:"name"`
	Dataset         Dataset         `json:"dataset"`
	Sampling        Sampling        `json:"sampling"`
	Pipeline        Pipeline        `json:"pipeline"`
	Consumer        Consumer        `json:"consumer,omitzero"`
	MetadataLatency json.RawMessage `json:"metadata_latency,omitempty"`
}

// Dataset describes the arrays, both to write and to read them.
type Dataset struct {
	// StoreRoot is relative to the working directory.
	StoreRoot string `json:"store_root"`
	// NZarrs arrays lie under the root: by URIFmt, a printf pattern of the array's
	// number, or else as z000/<ArrayPath>, z001/<ArrayPath> and so on.
	NZarrs    int    `json:"n_zarrs,omitempty"`
	URIFmt    string `json:"uri_fmt,omitempty"`
	ArrayPath string `json:"array_path,omitempty"`
	// URIs names existing arrays instead; nothing is written then.
	URIs []string `json:"uris,omitempty"`

	ZarrShape  []int64 `json:"zarr_shape,omitempty"`
	ChunkShape []int64 `json:"chunk_shape,omitempty"`
	// ShardShape is absent for an array without shards.
	ShardShape []int64 `json:"shard_shape,omitempty"`
	// DTypes and Codecs are cycled over the arrays.
	DTypes []string `json:"dtypes,omitempty"`
	Codecs []Chain  `json:"codecs,omitempty"`
	CLevel int      `json:"clevel,omitempty"`
	// Entropy is the share of values that mask50 keeps; the others are 0.
	Entropy float64 `json:"entropy"`
	Seed    uint64  `json:"seed"`

	// The keys below are ours.

	// Field names the values: see package dataset.
	Field string `json:"field,omitempty"`
	// ZarrFormat is 3 (default) or 2; format 2 has no shards.
	ZarrFormat int `json:"zarr_format,omitempty"`
	// Encoder picks the zstd library: "libzstd", "klauspost" or "" for the
	// build's own choice.
	Encoder string `json:"encoder,omitempty"`
}

// Sampling says which crops are taken.
type Sampling struct {
	SampleShape     []int64 `json:"sample_shape"`
	NBatches        int     `json:"n_batches"`
	NWarmupBatches  int     `json:"n_warmup_batches,omitempty"`
	SamplesPerBatch int     `json:"samples_per_batch"`
	Seed            uint64  `json:"seed"`
}

// Pipeline holds the settings of the engine.
type Pipeline struct {
	DType            string `json:"dtype"`
	LookaheadSamples int    `json:"lookahead_samples"`
	NIOThreads       int    `json:"n_io_threads"`

	// The keys below are ours; 0 is the engine's default.

	Workers      int    `json:"workers,omitempty"`
	Slots        int    `json:"slots,omitempty"`
	HostBytes    int64  `json:"host_bytes,omitempty"`
	DecodedBytes int64  `json:"decoded_bytes,omitempty"`
	Reuse        string `json:"reuse,omitempty"`

	// damacy's keys without a counterpart in the host engine.

	MetadataIOConcurrency     int     `json:"metadata_io_concurrency,omitempty"`
	MaxGPUMemoryMB            float64 `json:"max_gpu_memory_mb,omitempty"`
	MaxChunkUncompressedMB    float64 `json:"max_chunk_uncompressed_mb,omitempty"`
	MaxChunkUncompressedBytes int64   `json:"max_chunk_uncompressed_bytes,omitempty"`
	MaxReadOpKB               float64 `json:"max_read_op_kb,omitempty"`
	HostBufferWaves           int     `json:"host_buffer_waves,omitempty"`
	NArrayMetaCache           int     `json:"n_array_meta_cache,omitempty"`
	NShardIndexCache          int     `json:"n_shard_index_cache,omitempty"`
	NChunkLayoutCache         int     `json:"n_chunk_layout_cache,omitempty"`
	MaxShardsPerSample        int     `json:"max_shards_per_sample,omitempty"`
	BypassDecode              flag    `json:"bypass_decode,omitempty"`
}

// Consumer imitates a trainer.
type Consumer struct {
	// HoldMS is how long each batch is held before its release.
	HoldMS float64 `json:"hold_ms,omitempty"`
}

// flag reads true, false, 0 and 1.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true", "1":
		*f = true
	case "false", "0", "null":
		*f = false
	default:
		return fmt.Errorf("%s is neither true nor false", data)
	}
	return nil
}

// Load reads and validates a scenario file. Without a name in the file the
// scenario takes the file's.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nd.Errorf(nd.ErrNotFound, "no scenario file %s", path)
	}
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "read scenario: %w", err)
	}
	s, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	return s, nil
}

// Parse reads a scenario, fills in the defaults and validates it.
func Parse(data []byte) (*Scenario, error) {
	s := &Scenario{Dataset: Dataset{Entropy: 0.5, Seed: 42}, Sampling: Sampling{Seed: 1234}}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "scenario: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nd.Errorf(nd.ErrConfig, "scenario: something follows the JSON object")
	}
	s.setDefaults()
	if err := s.validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Scenario) setDefaults() {
	d := &s.Dataset
	if d.ArrayPath == "" {
		d.ArrayPath = "scale0/image"
	}
	if d.CLevel == 0 {
		d.CLevel = 3
	}
	if d.Field == "" {
		d.Field = "mask50"
	}
	if d.ZarrFormat == 0 {
		d.ZarrFormat = 3
	}
	if len(d.DTypes) == 0 {
		d.DTypes = []string{"u16"}
	}
	if len(d.Codecs) == 0 {
		d.Codecs = []Chain{{{Name: "zstd"}}}
	}
}

// Paths names the arrays relative to the root, or as the URIs say.
func (d *Dataset) Paths() []string {
	if len(d.URIs) > 0 {
		return d.URIs
	}
	paths := make([]string, d.NZarrs)
	for i := range paths {
		paths[i] = d.path(i)
	}
	return paths
}

func (d *Dataset) path(number int) string {
	if d.URIFmt == "" {
		return fmt.Sprintf("z%03d/%s", number, d.ArrayPath)
	}
	if !strings.Contains(d.URIFmt, "%") {
		return d.URIFmt
	}
	return fmt.Sprintf(goFormat(d.URIFmt), number)
}

// goFormat turns C's %u into %d.
func goFormat(format string) string {
	at := strings.IndexByte(format, '%')
	if at < 0 {
		return format
	}
	verb := at + 1
	for verb < len(format) && format[verb] >= '0' && format[verb] <= '9' {
		verb++
	}
	if verb < len(format) && (format[verb] == 'u' || format[verb] == 'i') {
		return format[:verb] + "d" + format[verb+1:]
	}
	return format
}

// Notes names the keys of the scenario that have no effect here.
func (s *Scenario) Notes() []string {
	var notes []string
	if s.Pipeline.BypassDecode {
		notes = append(notes, "bypass_decode is ignored: chunks are always decoded")
	}
	if len(s.MetadataLatency) > 0 {
		notes = append(notes, "metadata_latency is ignored: the store answers at its own speed")
	}
	return notes
}
