package decode_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// stages are those of "name config, name config".
func stages(text string) (list []decode.Stage) {
	for part := range strings.SplitSeq(text, ", ") {
		name, config, _ := strings.Cut(part, " ")
		list = append(list, decode.Stage{Name: name})
		if config != "" {
			list[len(list)-1].Config = json.RawMessage(config)
		}
	}
	return list
}

// Stages are taken as the metadata name them, in the order of decoding; little-endian bytes are
// nothing to do. What no kernel decodes right is the host's.
func TestCodingOf(t *testing.T) {
	host := decode.Coding{}
	for text, want := range map[string]decode.Coding{
		"gzip":           {Method: kernels.Gzip},
		"gzip, bytes":    {Method: kernels.Gzip},
		"numcodecs.gzip": {Method: kernels.Gzip},
		`numcodecs.zlib {}, bytes {"endian":"little"}`: {Method: kernels.Zlib},
		"bytes": {Method: kernels.Copy},
		`crc32c, zstd {"level":3}, shuffle {"elementsize":2}`:       {Method: kernels.Zstd, Typesize: 2, Summed: true},
		`numcodecs.lz4, numcodecs.shuffle {"elementsize":8}, bytes`: {Method: kernels.LZ4, Typesize: 8},
		`numcodecs.blosc {"cname":"zstd"}, bytes`:                   {Method: kernels.BloscZstd},
		`gzip, bytes {"endian":"big"}`:                              host,
		"gzip, bytes 7":                                             host,
		"bytes, gzip":                                               host, // the order of encoding
		"gzip, transpose":                                           host,
		"numcodecs.snappy":                                          host,
	} {
		if got := decode.CodingOf(stages(text)); got != want {
			t.Errorf("%s: %v, not %v", text, got, want)
		}
	}
	if got := decode.CodingOf(nil); got.Method != kernels.Copy {
		t.Errorf("no stage: %v", got)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		decode.MethodName(kernels.BloscZstd):                                    "blosc with zstd",
		decode.MethodName(kernels.Host):                                         "the host's",
		decode.MethodName(99):                                                   "method 99",
		decode.Coding{Method: kernels.Zstd, Typesize: 2, Summed: true}.String(): "zstd, elements of 2 bytes apart, a CRC-32C behind",
		decode.CodingOf(stages("gzip")).String():                                "gzip",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// A method that the decoder was not opened for is the caller's mistake; too much of what it takes is
// a matter of limits.
func TestWrongMethod(t *testing.T) {
	r := open(t)
	data := words(1000)
	lz4 := r.chunk(t, encodeBy(t, data, "lz4", ""), len(data))
	lz4.Method = kernels.LZ4
	d := must(decode.Open(r.Device, decode.Limits{Chunks: 1, Bytes: 10_000}, kernels.Zstd))(t)
	err := d.Start(r.stream, []decode.Chunk{lz4})
	if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "lz4") || !strings.Contains(err.Error(), "Open") {
		t.Errorf("another method: %v", err)
	}
	ok(t, d.Close())
}
