package benchmark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/internal/plainread"
	"github.com/headrace/headrace/internal/scenario"
	"github.com/headrace/headrace/nd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, dataset string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse(fmt.Appendf(nil, `{"name": "tiny",
		"dataset": {"store_root": %q, "n_zarrs": 3, "zarr_shape": [40,48,56], "chunk_shape": [8,16,16], %s},
		"sampling": {"sample_shape": [12,20,24], "n_batches": 6, "n_warmup_batches": 2, "samples_per_batch": 4},
		"pipeline": {"dtype": "f32", "lookahead_samples": 16, "n_io_threads": 2}}`, t.TempDir(), dataset))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every layout and every kind of reuse gives the bytes of a plain read, and the
// figures add up.
func TestRunChecksEveryByte(t *testing.T) {
	for name, dataset := range map[string]string{
		"sharded": `"shard_shape": [16,32,32], "codecs": ["zstd", "blosc-lz4"], "dtypes": ["u16","u8","f32"]`,
		"v2":      `"zarr_format": 2, "codecs": ["blosc-lz4", ["transpose","zlib"]], "field": "lm"`,
		"raw":     `"codecs": "none"`,
	} {
		dataset = strings.Replace(dataset, `"codecs": "none"`, `"codecs": ["none"]`, 1)
		s := load(t, dataset)
		for _, reuse := range []string{"none", "batch", "window", "cache"} {
			var phases []string
			r, err := Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Reuse: reuse, Check: true, Report: func(phase string, done, total int64) {
				if len(phases) == 0 || phases[len(phases)-1] != phase {
					phases = append(phases, phase)
				}
			}})
			if err != nil {
				t.Fatalf("%s, reuse %s: %v", name, reuse, err)
			}
			if r.Check == nil || !r.Check.OK || r.Check.Samples != 24 || r.Check.Bytes != 24*12*20*24*4 {
				t.Errorf("%s: check %+v", name, r.Check)
			}
			if r.Samples != 24 || r.Batches != 6 || r.SamplesPerS <= 0 || r.FirstBatchMS < r.OpenMS || r.HostBytes <= 0 || r.RSSBytes <= 0 {
				t.Errorf("%s: %+v", name, r)
			}
			if last := phases[len(phases)-1]; last != "check" {
				t.Errorf("%s: phases %v", name, phases)
			}
			if name == "raw" && r.BareGBPerS != 0 || name != "raw" && (r.BareGBPerS <= 0 || r.EndToEndVsBare <= 0) {
				t.Errorf("%s: bare decoder %g GB/s", name, r.BareGBPerS)
			}
			if reuse == "none" && r.HitRates.Decoded != 0 {
				t.Errorf("%s: %g of the chunks reused although reuse is none", name, r.HitRates.Decoded)
			}
		}
	}
}

// The check must find a difference: here the data change between the engine's
// read and the plain one, which keeps what it has decoded.
func TestCheckFindsDifferences(t *testing.T) {
	s := load(t, `"codecs": ["none"]`)
	ctx := context.Background()
	if _, err := Run(ctx, s, Options{BareTime: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	c, err := (&Options{BareTime: 20 * time.Millisecond}).config(s)
	if err != nil {
		t.Fatal(err)
	}
	list, err := openArrays(ctx, c.Arrays, s.Sampling.SampleShape)
	if err != nil {
		t.Fatal(err)
	}
	defer list.close()
	r := &run{scenario: s, options: &Options{BareTime: 20 * time.Millisecond}, arrays: list, batches: 1}
	for i := range list {
		reader, err := list[i].reader(1 << 30)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Read(ctx, nd.Whole(list[i].meta.Shape), nd.U16); err != nil {
			t.Fatal(err)
		}
		kept := list[i].reader
		list[i].reader = func(keep int64) (_ *plainread.Reader, err error) { _, err = kept(keep); return reader, err }
	}
	err = filepath.WalkDir(s.Dataset.StoreRoot, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".json") {
			return err
		}
		data, err := os.ReadFile(path)
		for i := range data {
			data[i] ^= 1
		}
		return errors.Join(err, os.WriteFile(path, data, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.check(ctx, c)
	if !errors.Is(err, nd.ErrBug) || !strings.Contains(err.Error(), "element 0") || !strings.Contains(err.Error(), "sample 0") {
		t.Errorf("got %v, want the first differing element by name", err)
	}
}

// The JSON names are a promise to scripts.
func TestJSONNames(t *testing.T) {
	s := load(t, `"codecs": ["zstd"]`)
	r, err := Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Batches: 1, Warmup: -1})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]any
	if err := json.Unmarshal(data, &names); err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("samples_per_s gb_per_s decoded_gb_per_s amplification hit_rates gpu_decode_ms_per_gb chunks_on_host chunks_refused first_batch_ms host_bytes device_bytes rss_bytes stages check config decode_vs_bare end_to_end_vs_bare bare_gb_per_s scenario_keys") {
		if _, ok := names[name]; !ok {
			t.Errorf("no %s in %s", name, data)
		}
	}
	if names["check"] != nil || names["samples"] != 4.0 {
		t.Errorf("check %v, samples %v", names["check"], names["samples"])
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "samples/s") || !strings.Contains(text.String(), "decode") {
		t.Errorf("table:\n%s%v", text.String(), err)
	}
}

// On a GPU, here a fake one, the figures are of the timed batches alone, and what it
// decodes has a price.
func TestGPUFigures(t *testing.T) {
	for codec, onHost := range map[string]bool{"zstd": false, "delta": true} {
		s := load(t, fmt.Sprintf(`"codecs": [%q]`, codec))
		o := &Options{Device: "cuda:0", Reuse: "none", DeviceBytes: 256 << 20, HostBytes: 256 << 20}
		cfg, err := o.config(s)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Driver = cudatest.New(t).Path
		ctx := context.Background()
		if err := o.write(ctx, s); err != nil {
			t.Fatal(err)
		}
		r := &run{scenario: s, options: o, warmup: 2, batches: 2}
		if r.arrays, err = openArrays(ctx, cfg.Arrays, s.Sampling.SampleShape); err != nil {
			t.Fatal(err)
		}
		got, err := r.measure(ctx, cfg)
		r.arrays.close()
		if err != nil {
			t.Fatal(err)
		}
		if (got.ChunksOnHost > 0) != onHost || got.ChunksRefused != 0 || (got.GPUDecodeMSPerGB > 0) == onHost {
			t.Errorf("%s: %d chunks on the host, %d refused, %g ms of the GPU a GB", codec, got.ChunksOnHost, got.ChunksRefused, got.GPUDecodeMSPerGB)
		}
		out := map[string]int64{}
		for _, st := range got.Stages {
			out[st.Name] = st.OutBytes
		}
		if !onHost && out["gpu decode"] != out["decode"] || out["decode"] == 0 || out["copy"] > 2*out["decode"] {
			t.Errorf("%s: bytes of the stages: %v", codec, out)
		}
		var text strings.Builder
		if err := got.Print(&text); err != nil || strings.Contains(text.String(), "on the host") != onHost || strings.Contains(text.String(), "ms of the GPU") == onHost {
			t.Errorf("%s:\n%s%v", codec, text.String(), err)
		}
	}
}

// Settings that cannot work fail before any data is written.
func TestBadOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"reuse":    {Reuse: "sometimes"},
		"Device":   {Device: "gpu"},
		"Reader":   {Reader: "mmap"},
		"Decoder":  {Decoder: "nvcomp"},
		"BatchSiz": {Lookahead: 1},
	} {
		s := load(t, `"codecs": ["zstd"]`)
		_, err := Run(context.Background(), s, o)
		if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
		if made, _ := os.ReadDir(s.Dataset.StoreRoot); len(made) > 0 {
			t.Errorf("%s: data was written", want)
		}
	}
}

// A cancelled run ends with the reason and leaves no goroutine in the way.
func TestCancelled(t *testing.T) {
	s := load(t, `"codecs": ["zstd"]`)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, s, Options{BareTime: 20 * time.Millisecond, Report: func(phase string, done, total int64) {
		if phase == "measure" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Arrays without room for a crop are left out; when none is left it is said.
func TestURIs(t *testing.T) {
	s := load(t, `"codecs": ["zstd"]`)
	if _, err := Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Batches: 1}); err != nil {
		t.Fatal(err)
	}
	s.Dataset.URIs = []string{"z000/scale0/image", s.Dataset.StoreRoot + "/z001/scale0/image"}
	r, err := Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Batches: 1})
	if err != nil || r.Config.Arrays != 2 {
		t.Errorf("two arrays by URI: %v", err)
	}
	s.Sampling.SampleShape = []int64{41, 1, 1}
	if _, err = Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Batches: 1}); !errors.Is(err, nd.ErrShape) {
		t.Errorf("no array has room: %v", err)
	}
	s.Dataset.URIs = []string{"absent"}
	if _, err = Run(context.Background(), s, Options{BareTime: 20 * time.Millisecond, Batches: 1}); !errors.Is(err, nd.ErrNotFound) || !strings.Contains(err.Error(), "absent") {
		t.Errorf("absent array: %v", err)
	}
}
