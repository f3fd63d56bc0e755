// Command klauspost writes chunks by the encoders of the Go world, for the campaign of the
// decoders: klauspost's zstd, gzip and zlib, Go's own zlib, pierrec's LZ4.
//
//	klauspost PLAIN OUT
//
// PLAIN is pieces of bytes, each behind its length (u32, little-endian). OUT has for each encoding
// the index of the piece (u32), the method as in package kernels (u8), a label behind its
// length (u8), and the encoded bytes behind theirs (u32). write_go.py reads it.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
)

// An encoding is one way to write a chunk.
type encoding struct {
	label  string
	method uint8
	encode func(data []byte) ([]byte, error)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "klauspost PLAIN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(plain, out string) error {
	pieces, err := readPieces(plain)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i, data := range pieces {
		if err = writeAll(w, i, data); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func readPieces(path string) (pieces [][]byte, err error) {
	data, err := os.ReadFile(path)
	for err == nil && len(data) > 0 {
		n := int64(-1)
		if len(data) >= 4 {
			n = int64(binary.LittleEndian.Uint32(data))
		}
		if n < 0 || n > int64(len(data)-4) {
			return nil, fmt.Errorf("%s is torn", path)
		}
		pieces = append(pieces, data[4:4+n])
		data = data[4+n:]
	}
	return pieces, err
}

// writeAll encodes a piece in some of the ways, others for each piece.
func writeAll(w *bufio.Writer, piece int, data []byte) error {
	all := append(append(zstdEncodings(piece), deflateEncodings()...), lz4Encodings()...)
	for k := piece % 3; k < len(all); k += 3 {
		e := all[k]
		src, err := e.encode(data)
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", e.label, len(data), err)
		}
		if src == nil {
			continue // it does not take such data
		}
		head := binary.LittleEndian.AppendUint32(nil, uint32(piece))
		head = append(head, e.method, byte(len(e.label)))
		head = binary.LittleEndian.AppendUint32(append(head, e.label...), uint32(len(src)))
		_, _ = w.Write(head) // Flush has the error
		_, _ = w.Write(src)
	}
	return nil
}
