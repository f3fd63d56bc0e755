package codec

import (
	"github.com/headrace/headrace/nd"
)

// Chain is a list of codecs in the order of decoding, together with the number
// of bytes that must come out. It is immutable and safe for concurrent use.
type Chain struct {
	stages []Codec
	size   int // decoded bytes, -1 if only bounded
	exact  []int
}

// sized is a codec whose encoded size follows from the decoded size alone, so
// that lengths can be checked between stages too.
type sized interface {
	// encodedSize is -1 when no encoded form decodes to so many bytes.
	encodedSize(decoded int) int
}

// NewChain makes the chain of the given stages, first stage decoded first.
// Exactly size bytes must come out of the last; -1 means that the size is not
// known and len(dst) of each call is the limit.
func NewChain(stages []Codec, size int) (*Chain, error) {
	if size < -1 {
		return nil, nd.Errorf(nd.ErrBug, "codec chain: decoded size %d", size)
	}
	for i, stage := range stages {
		if stage == nil {
			return nil, nd.Errorf(nd.ErrBug, "codec chain: stage %d is nil", i)
		}
	}
	c := &Chain{stages: append([]Codec(nil), stages...), size: size}
	return c, c.measure()
}

// measure works out, from the last stage to the first, the bytes that each stage
// must give; -1 where they are not known in advance.
func (c *Chain) measure() error {
	c.exact = make([]int, len(c.stages))
	next := c.size
	for i := len(c.stages) - 1; i >= 0; i-- {
		c.exact[i] = next
		stage, ok := c.stages[i].(sized)
		if !ok || next < 0 {
			next = -1
			continue
		}
		if next = stage.encodedSize(next); next < 0 {
			return nd.Errorf(nd.ErrCorrupt, "codec %s: a chunk of %d bytes is no whole number of its elements",
				c.stages[i].Name(), c.exact[i])
		}
	}
	return nil
}

// WithoutChecksums is the chain that takes checksums off without looking at
// them. Checks inside a compressed format (zstd, gzip) stay.
func (c *Chain) WithoutChecksums() *Chain {
	plain := &Chain{stages: append([]Codec(nil), c.stages...), size: c.size, exact: c.exact}
	for i, stage := range plain.stages {
		if sum, ok := stage.(checksum); ok {
			plain.stages[i] = sum.unverified()
		}
	}
	return plain
}

// Decode runs all stages. The result has exactly the chain's size (at most
// len(dst) bytes if that is unknown) and is the start of dst or, when nothing
// but a checksum had to be taken off, a part of src. Any other length is an
// error of kind nd.ErrCorrupt. The result never points into the scratch.
func (c *Chain) Decode(dst, src []byte, s *Scratch) ([]byte, error) {
	if c.size > len(dst) && len(c.stages) > 0 {
		return nil, nd.Errorf(nd.ErrBug, "codec chain: room for %d bytes, chunk has %d", len(dst), c.size)
	}
	data, home := src, callers
	for i, stage := range c.stages {
		out, to := c.room(i, dst, data, s, home)
		result, err := stage.Decode(out, data, s)
		if err != nil {
			return nil, err
		}
		if err := c.check(i, len(result)); err != nil {
			return nil, err
		}
		if startsAt(result, out) {
			home = to
		}
		data = result
	}
	return c.finish(dst, data, home)
}

// The memory that the bytes between two stages lie in.
const (
	inPipe0 = iota // the two halves of Scratch.pipe
	inPipe1
	callers // src or dst: not the scratch
)

// room is where stage i writes: dst for the last stage, else the half of the
// pipe that its input, data, does not lie in. A checksum before the last stage
// writes nothing, and its result has room where it is.
func (c *Chain) room(i int, dst, data []byte, s *Scratch, home int) (out []byte, to int) {
	limit := len(dst)
	if c.size >= 0 {
		limit = c.size
	}
	if i == len(c.stages)-1 {
		return dst[:limit], callers
	}
	if _, ok := c.stages[i].(checksum); ok {
		return data, home
	}
	to = inPipe0
	if home == inPipe0 {
		to = inPipe1
	}
	s.pipe[to] = grown(s.pipe[to], c.limit(i, limit))
	return s.pipe[to], to
}

// limit is the most bytes that stage i may give when the last may give final.
// A stream that has to be decompressed further may be longer than its content:
// by a few bytes per block, and by a sixth with snappy.
func (c *Chain) limit(i, final int) int {
	for j := len(c.stages) - 1; j > i; j-- {
		encoded := -1
		if stage, ok := c.stages[j].(sized); ok {
			encoded = stage.encodedSize(final)
		}
		if encoded < 0 {
			encoded = final + final/4 + 64<<10
		}
		final = encoded
	}
	return final
}

func (c *Chain) check(i, got int) error {
	if want := c.exact[i]; want >= 0 && got != want {
		return nd.Errorf(nd.ErrCorrupt, "codec %s: got %d bytes, expected %d", c.stages[i].Name(), got, want)
	}
	return nil
}

// finish brings bytes that ended up in the scratch home to dst.
func (c *Chain) finish(dst, data []byte, home int) ([]byte, error) {
	if c.size >= 0 && len(data) != c.size {
		return nil, nd.Errorf(nd.ErrCorrupt, "chunk: got %d bytes, expected %d", len(data), c.size)
	}
	if home == callers {
		return data, nil
	}
	if len(data) > len(dst) {
		return nil, nd.Errorf(nd.ErrCorrupt, "chunk: got %d bytes, at most %d fit", len(data), len(dst))
	}
	return dst[:copy(dst, data)], nil
}

// startsAt tells which of its two ways Codec.Decode chose for its result: the
// start of dst, or else a part of src.
func startsAt(result, dst []byte) bool {
	return len(result) > 0 && len(dst) > 0 && &result[0] == &dst[0]
}
