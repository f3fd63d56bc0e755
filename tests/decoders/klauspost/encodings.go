package main

import (
	"bytes"
	stdzlib "compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"
	"math/rand/v2"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/headrace/headrace/cuda/kernels"
)

// A flusher is a writer of a format.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// written is what a writer makes of data that comes in pieces, flushed now and then.
func written(w flusher, out *bytes.Buffer, data []byte, seed uint64) ([]byte, error) {
	r := rand.New(rand.NewPCG(seed, uint64(len(data))))
	for len(data) > 0 {
		n := min(len(data), []int{1, 100, 3000, 20_000, 70_000}[r.IntN(5)])
		if _, err := w.Write(data[:n]); err != nil {
			return nil, err
		}
		if r.IntN(2) == 0 {
			if err := w.Flush(); err != nil {
				return nil, err
			}
		}
		data = data[n:]
	}
	err := w.Close()
	return out.Bytes(), err
}

func zstdEncodings(piece int) (all []encoding) {
	add := func(label string, encode func(data []byte) ([]byte, error)) {
		all = append(all, encoding{label, kernels.Zstd, encode})
	}
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		for _, o := range []struct {
			label   string
			options []zstd.EOption
		}{
			{"", nil},
			{", no checksum", []zstd.EOption{zstd.WithEncoderCRC(false)}},
			{", single segment", []zstd.EOption{zstd.WithSingleSegment(true)}},
			{", small window", []zstd.EOption{zstd.WithWindowSize(1 << (10 + piece%8))}},
			{", padded", []zstd.EOption{zstd.WithEncoderPadding(1 + piece%900), zstd.WithZeroFrames(true)}},
			{", no entropy", []zstd.EOption{zstd.WithNoEntropyCompression(true)}},
			{", all literals", []zstd.EOption{zstd.WithAllLitEntropyCompression(true)}},
		} {
			options := append([]zstd.EOption{zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true)}, o.options...)
			add("zstd by klauspost"+o.label, func(data []byte) ([]byte, error) {
				w, err := zstd.NewWriter(nil, options...)
				if err != nil {
					return nil, err
				}
				return w.EncodeAll(data, nil), w.Close()
			})
			if len(o.options) == 0 {
				add("zstd by klauspost, flushed", func(data []byte) ([]byte, error) {
					var out bytes.Buffer
					w, err := zstd.NewWriter(&out, options...)
					if err != nil {
						return nil, err
					}
					return written(w, &out, data, uint64(piece))
				})
			}
		}
	}
	return all
}

func deflateEncodings() (all []encoding) {
	for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
		all = append(all, encoding{"gzip by klauspost", kernels.Gzip, func(data []byte) ([]byte, error) {
			var out bytes.Buffer
			w, err := gzip.NewWriterLevel(&out, level)
			if err != nil {
				return nil, err
			}
			w.Name = "a name"
			return written(w, &out, data, uint64(level+2))
		}}, encoding{"zlib by klauspost", kernels.Zlib, func(data []byte) ([]byte, error) {
			var out bytes.Buffer
			w, err := zlib.NewWriterLevel(&out, level)
			if err != nil {
				return nil, err
			}
			return written(w, &out, data, uint64(level+2))
		}}, encoding{"zlib by Go", kernels.Zlib, func(data []byte) ([]byte, error) {
			var out bytes.Buffer
			w, err := stdzlib.NewWriterLevel(&out, level)
			if err != nil {
				return nil, err
			}
			return written(w, &out, data, uint64(level+2))
		}})
	}
	return append(all, encoding{"zlib by klauspost, stateless", kernels.Zlib, stateless})
}

// stateless is a zlib stream by the writer that keeps no window.
func stateless(data []byte) ([]byte, error) {
	out := bytes.NewBuffer([]byte{0x78, 0x01})
	if err := flate.StatelessDeflate(out, data, true, nil); err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint32(out.Bytes(), adler32.Checksum(data)), nil
}

func lz4Encodings() (all []encoding) {
	for _, level := range []lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level5, lz4.Level9} {
		all = append(all, encoding{"lz4 by pierrec", kernels.LZ4, func(data []byte) ([]byte, error) { return block(data, level) }})
	}
	return all
}

// block is nil if the block would be no shorter than the data: pierrec writes none then.
func block(data []byte, level lz4.CompressionLevel) (out []byte, err error) {
	body, n := make([]byte, lz4.CompressBlockBound(len(data))), 0
	if level == lz4.Fast {
		n, err = lz4.CompressBlock(data, body, nil)
	} else {
		n, err = lz4.CompressBlockHC(data, body, level, nil, nil)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("a block of level %v: %w", level, err)
	case n == 0:
		return nil, nil
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), body[:n]...), nil
}
