package dataset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/atomicfile"
	"github.com/headrace/headrace/nd"
)

// grid is the number of objects of the array along each axis.
func (a *Array) grid() []int64 {
	grid := make([]int64, len(a.Shape))
	for i, extent := range a.object() {
		grid[i] = (a.Shape[i] + extent - 1) / extent
	}
	return grid
}

// key is the file of an object, relative to the array.
func (a *Array) key(coord []int64) string {
	parts := make([]string, 0, 1+len(coord))
	if a.Format == 3 {
		parts = append(parts, "c")
	}
	for _, x := range coord {
		parts = append(parts, strconv.FormatInt(x, 10))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, "/")
}

// writeObject writes the file of the object at coord below dir. With keep a file
// that is there already stays as it is.
func (c *chunker) writeObject(dir string, coord []int64, keep bool) error {
	path := filepath.Join(dir, filepath.FromSlash(c.array.key(coord)))
	if keep {
		if _, err := os.Stat(path); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nd.Errorf(nd.ErrIO, "%w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nd.Errorf(nd.ErrIO, "make the folder of a chunk: %w", err)
	}
	file, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer file.Abort()
	if c.array.Shard == nil {
		err = c.writeChunk(file, coord)
	} else {
		if c.out == nil {
			c.out = bufio.NewWriterSize(nil, 256<<10)
		}
		c.out.Reset(file)
		err = c.writeShard(c.out, coord)
		if err == nil {
			err = c.out.Flush()
		}
	}
	if err == nil {
		err = file.Commit()
	}
	return err
}

func (c *chunker) writeChunk(out io.Writer, coord []int64) error {
	data, err := c.chunk(coord)
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// writeShard writes the chunks of a shard in C order and its index behind them:
// (offset, length) of each chunk, then the CRC-32C of that table. Chunks that lie
// wholly outside the array are not stored: both words are all ones.
func (c *chunker) writeShard(out io.Writer, shard []int64) error {
	a := c.array
	inner := make([]int64, len(shard))
	for i := range inner {
		inner[i] = a.Shard[i] / a.Chunk[i]
	}
	n, _ := nd.Product(inner)
	var index []byte
	var offset uint64
	coord := make([]int64, len(shard))
	for i := range n {
		if !chunkIn(coord, shard, inner, i, a) {
			index = append(index, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)
			continue
		}
		data, err := c.chunk(coord)
		if err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
		index = binary.LittleEndian.AppendUint64(index, offset)
		index = binary.LittleEndian.AppendUint64(index, uint64(len(data)))
		offset += uint64(len(data))
	}
	sum := crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli))
	_, err := out.Write(binary.LittleEndian.AppendUint32(index, sum))
	return err
}

// chunkIn sets coord to chunk i of the shard; false when it lies outside the
// array.
func chunkIn(coord, shard, inner []int64, i int64, a *Array) bool {
	inside := true
	for axis := len(coord) - 1; axis >= 0; axis-- {
		coord[axis] = shard[axis]*inner[axis] + i%inner[axis]
		i /= inner[axis]
		inside = inside && coord[axis]*a.Chunk[axis] < a.Shape[axis]
	}
	return inside
}
