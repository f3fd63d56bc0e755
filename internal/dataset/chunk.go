package dataset

import (
	"bufio"
	"encoding/json"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// encode appends the encoded form of src to dst.
type encode func(dst, src []byte) ([]byte, error)

// chunker makes the encoded chunks of one array. One goroutine at a time.
type chunker struct {
	array  *Array
	rows   rower
	order  []int
	swap   int // bytes of a word to swap, 0 for little-endian
	stages []encode

	values, stored []byte        // of one chunk
	encoded        [2][]byte     // in front of and behind a stage
	out            *bufio.Writer // of shards
}

func newChunker(a *Array) (*chunker, error) {
	rows, err := a.rower()
	if err != nil {
		return nil, err
	}
	l, err := a.layout()
	if err != nil {
		return nil, err
	}
	n, _ := nd.Product(a.Chunk)
	c := &chunker{array: a, rows: rows, order: l.order, values: make([]byte, n*int64(a.DType.Size()))}
	if l.big {
		c.swap = a.DType.Word()
	}
	for _, doc := range append(l.filters, l.bytes...) {
		stage, err := a.encoder(doc)
		if err != nil {
			return nil, err
		}
		c.stages = append(c.stages, stage)
	}
	return c, nil
}

// encoder is the encoder of one codec.
func (a *Array) encoder(doc codecDoc) (encode, error) {
	config := doc.config
	if a.Format == 2 {
		config = doc.v2()
		if doc.name == "blosc" { // numcodecs has it from the array, and its metadata do not say it
			config["typesize"] = a.DType.Size()
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBug, "codec %s: %w", doc.name, err)
	}
	c, err := codec.New(doc.name, raw)
	if err != nil {
		return nil, err
	}
	if doc.name == "zstd" {
		if own, err := zstdEncoder(a.Encoder, config); own != nil || err != nil {
			return own, err
		}
	}
	return c.Encode, nil
}

// chunk is the encoded chunk at a coordinate of the grid; it is valid until the
// next call.
func (c *chunker) chunk(coord []int64) ([]byte, error) {
	c.fill(coord)
	data := c.values
	if c.order != nil {
		data = c.transposed()
	}
	if c.swap > 1 {
		swapWords(data, c.swap)
	}
	for i, stage := range c.stages {
		out, err := stage(c.encoded[i%2][:0], data)
		if err != nil {
			return nil, err
		}
		c.encoded[i%2], data = out, out
	}
	return data, nil
}

// fill writes the values of a chunk. Beyond the edge of the array lies the fill
// value.
func (c *chunker) fill(coord []int64) {
	a := c.array
	rank, size := len(a.Shape), a.DType.Size()
	if rank == 0 {
		c.rows.row(c.values, nil)
		return
	}
	clear(c.values)
	at, first := make([]int64, rank), make([]int64, rank)
	for i := range at {
		first[i] = coord[i] * a.Chunk[i]
	}
	last := rank - 1
	width := int(a.Chunk[last])
	inside := int(min(a.Chunk[last], a.Shape[last]-first[last]))
	rows := len(c.values) / (width * size)
	for r := range rows {
		if inside > 0 && rowAt(at, first, r, a) {
			begin := r * width * size
			c.rows.row(c.values[begin:begin+inside*size], at)
		}
	}
}

// rowAt sets at to the first element of row r of the chunk that begins at first;
// false when the row lies outside the array.
func rowAt(at, first []int64, r int, a *Array) bool {
	last := len(at) - 1
	at[last] = first[last]
	for i := last - 1; i >= 0; i-- {
		at[i] = first[i] + int64(r)%a.Chunk[i]
		r /= int(a.Chunk[i])
		if at[i] >= a.Shape[i] {
			return false
		}
	}
	return true
}

// transposed is the chunk with its axes in stored order.
func (c *chunker) transposed() []byte {
	a, size := c.array, c.array.DType.Size()
	rank := len(a.Chunk)
	c.stored = append(c.stored[:0], c.values...)
	stride := make([]int, rank) // of the array's axes, in bytes
	step := size
	for i := rank - 1; i >= 0; i-- {
		stride[i] = step
		step *= int(a.Chunk[i])
	}
	count := make([]int64, rank) // position along the stored axes
	from := 0
	for to := 0; to < len(c.stored); to += size {
		copy(c.stored[to:to+size], c.values[from:])
		for i := rank - 1; i >= 0; i-- {
			axis := c.order[i]
			count[i]++
			from += stride[axis]
			if count[i] < a.Chunk[axis] {
				break
			}
			from -= stride[axis] * int(count[i])
			count[i] = 0
		}
	}
	return c.stored
}

// swapWords reverses the bytes of every word in place.
func swapWords(data []byte, word int) {
	for ; len(data) >= word; data = data[word:] {
		for i, j := 0, word-1; i < j; i, j = i+1, j-1 {
			data[i], data[j] = data[j], data[i]
		}
	}
}
