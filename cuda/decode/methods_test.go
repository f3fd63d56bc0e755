package decode_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/cuda/kernels"
	"github.com/headrace/headrace/nd"
)

// encoding is a way to encode a chunk.
type encoding struct {
	method       uint8
	name, config string
}

func encodings() []encoding {
	list := []encoding{
		{kernels.Copy, "", ""},
		{kernels.LZ4, "lz4", ""},
		{kernels.Zstd, "zstd", `{"level":3}`},
		{kernels.Zlib, "zlib", ""},
		{kernels.Gzip, "gzip", ""},
		{kernels.Unshuffle, "shuffle", `{"elementsize":4}`},
	}
	for _, b := range []struct {
		method uint8
		cname  string
	}{{kernels.Blosc, "lz4"}, {kernels.Blosc, "blosclz"}, {kernels.BloscZstd, "zstd"}, {kernels.BloscZlib, "zlib"}} {
		for shuffle := range 3 {
			list = append(list, encoding{b.method, "blosc", fmt.Sprintf(`{"cname":%q,"shuffle":%d,"typesize":4,"blocksize":16384}`, b.cname, shuffle)})
		}
	}
	return list
}

// A batch has chunks of any method, with elements apart and checksums behind them or not, in device
// memory and in host memory.
func TestBatchOfAllMethods(t *testing.T) {
	r := open(t)
	data := words(100_001)
	apart := make([]byte, len(data))
	codec.Shuffle(apart, data, 3)
	var chunks []decode.Chunk
	var names []string
	for _, e := range encodings() {
		for variant := range 4 {
			c := decode.Chunk{DstBytes: len(data), Method: e.method, Dst: r.upload(t, nil, len(data)), Summed: variant%2 == 1}
			plain, inHost := data, variant/2 == 1
			switch {
			case e.name == "shuffle":
				c.Typesize = 4
			case e.name != "blosc" && e.name != "" && variant > 0:
				c.Typesize, plain = 3, apart
			}
			encoded := bytes.Clone(plain)
			if e.name != "" {
				encoded = encodeBy(t, plain, e.name, e.config)
			}
			c.SrcBytes = len(encoded)
			if c.Summed {
				encoded = binary.LittleEndian.AppendUint32(encoded, crc32.Checksum(encoded, crc32.MakeTable(crc32.Castagnoli)))
			}
			if inHost {
				host := must(r.AllocHost(int64(len(encoded)) + 32))(t)
				t.Cleanup(func() { ok(t, r.FreeHost(host)) })
				copy(host, encoded)
				c.Src = cuda.Address(host)
			} else {
				c.Src = r.upload(t, encoded, len(encoded))
			}
			chunks = append(chunks, c)
			names = append(names, fmt.Sprintf("%s %s, variant %d", e.name, e.config, variant))
		}
	}
	d := must(decode.Open(r.Device, decode.Limits{Chunks: len(chunks), Bytes: int64(len(chunks) * len(data))}))(t)
	for range 2 {
		ok(t, d.Start(r.stream, chunks))
		for i, err := range must(d.Wait(nil))(t) {
			got := make([]byte, len(data))
			r.copy(t, got, chunks[i].Dst, false)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %v, or other bytes", names[i], err)
			}
		}
	}
	ok(t, d.Close())
}

// An error says of which method the chunk was; a sum that differs is one, and so is a frame of
// another compressor, which is not broken.
func TestErrorsOfMethods(t *testing.T) {
	r := open(t)
	data := words(5000)
	var chunks []decode.Chunk
	var names []string
	var wants []error
	add := func(e encoding, encoded []byte, summed bool, want error) {
		c := r.chunk(t, encoded, len(data))
		c.Method, c.Summed = e.method, summed
		if summed {
			c.SrcBytes -= 4
		}
		chunks, names, wants = append(chunks, c), append(names, e.name), append(wants, want)
	}
	for _, e := range encodings()[1:] {
		encoded := encodeBy(t, data, e.name, e.config)
		add(e, encoded[:len(encoded)-1], false, nd.ErrCorrupt)
		add(e, append(bytes.Clone(encoded), 1, 2, 3, 4), true, nd.ErrCorrupt)
		if e.name == "blosc" {
			encoded[2] = 2<<5 | encoded[2]&0x1f // snappy
			add(e, encoded, false, nd.ErrUnsupported)
		}
	}
	d := must(decode.Open(r.Device, decode.Limits{Chunks: len(chunks), Bytes: int64(len(chunks) * len(data))}))(t)
	ok(t, d.Start(r.stream, chunks))
	for i, err := range must(d.Wait(nil))(t) {
		if !errors.Is(err, wants[i]) || !strings.Contains(err.Error(), names[i]) {
			t.Errorf("chunk %d of %s: %v, expected %v", i, names[i], err, wants[i])
		}
	}
	ok(t, d.Close())
}
