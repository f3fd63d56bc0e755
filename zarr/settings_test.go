package zarr

import (
	"fmt"
	"testing"

	"github.com/headrace/headrace/nd"
)

// A member of a v3 configuration that headrace does not know may change the
// meaning of the data ("swap"), so it is refused by name and never skipped. This
// holds for each codec that is read, wherever it stands, and for data types.
func TestUnknownSettings(t *testing.T) {
	const shard = `{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "codecs": [%s], "index_codecs": [%s]}}`
	bytesCodec := func(more string) string {
		return `{"name": "bytes", "configuration": {"endian": "little"` + more + `}}`
	}
	strange := func(name, known string) string {
		return fmt.Sprintf(`{"name": %q, "configuration": {%s"swap": true}}`, name, known)
	}
	codecs := map[string]string{
		"bytes":            bytesCodec(`, "swap": true`),
		"endian":           strange("endian", `"endian": "little", `),
		"sharding_indexed": strange("sharding_indexed", `"chunk_shape": [2, 4], "codecs": ["bytes"], `),
		"transpose":        strange("transpose", `"order": [1, 0], `) + `, "bytes"`,
		"crc32c":           `"bytes", ` + strange("crc32c", ""),
		"inside a shard":   fmt.Sprintf(shard, bytesCodec(`, "swap": true`), bytesCodec("")),
		"of an index":      fmt.Sprintf(shard, bytesCodec(""), bytesCodec("")+`, `+strange("crc32c", "")),
	}
	for _, name := range []string{"zstd", "blosc", "gzip", "numcodecs.zlib", "numcodecs.lz4", "numcodecs.shuffle"} {
		codecs[name] = `"bytes", ` + strange(name, "")
	}
	for _, name := range []string{"delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits"} {
		codecs["numcodecs."+name] = strange("numcodecs."+name, "") + `, "bytes"`
	}
	for name, list := range codecs {
		_, err := ParseArray(overlay(t, baseV3, `codecs: [`+list+`]`))
		t.Run(name, func(t *testing.T) { wantKind(t, err, nd.ErrUnsupported, `with setting "swap"`) })
	}
	for _, dtype := range []string{"uint8", "numpy.datetime64"} {
		doc := overlay(t, baseV3, fmt.Sprintf(`data_type: {"name": %q, "configuration": {"unit": "s", "swap": true}}`, dtype))
		_, err := ParseArray(doc)
		t.Run(dtype, func(t *testing.T) { wantKind(t, err, nd.ErrUnsupported, `with setting "swap"`) })
	}
}

// What only the encoder needed is accepted under every compressor, and an empty
// configuration everywhere: writers add both.
func TestHarmlessSettings(t *testing.T) {
	const hints = `"id": "x", "level": 1, "clevel": 5, "acceleration": 1, "blocksize": 0, "typesize": 2, "nthreads": 4, "checksum": true`
	for _, name := range []string{"zstd", "blosc", "gzip", "numcodecs.zstd", "numcodecs.blosc", "numcodecs.zlib", "numcodecs.lz4"} {
		mustParse(t, baseV3, fmt.Sprintf(`codecs: ["bytes", {"name": %q, "configuration": {%s}}]`, name, hints))
	}
	mustParse(t, baseV3, `codecs: [{"name": "bytes", "configuration": {}}, {"name": "crc32c", "configuration": {}}]`)
	mustParse(t, baseV3, `data_type: {"name": "uint8", "configuration": {}}`)
}

// A v2 compressor object may hold whatever it likes: its stream says it all.
func TestUnknownSettingsOfV2(t *testing.T) {
	mustParse(t, baseV2, `compressor: {"id": "zstd", "level": 1, "swap": true}`)
}

// The checksum of an index is read at its end and nowhere else.
func TestIndexChecksumAtStart(t *testing.T) {
	_, err := ParseArray(overlay(t, baseV3, `codecs: [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "codecs": ["bytes"], `+
		`"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c", "configuration": {"location": "start"}}]}}]`))
	wantKind(t, err, nd.ErrUnsupported, `location "start"`)
}
