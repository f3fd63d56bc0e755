package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

const (
	// triedBytes bounds what is encoded again, chunks together and a piece of one: some
	// tenths of a second for a codec.
	triedBytes = 32 << 20
	// defaultLevel is what a codec without a level is given: libzstd's, blosc's.
	zstdLevel, bloscLevel, deflateLevel = 3, 5, 5
	// The levels that the libraries have; what is beyond they bend or refuse.
	zstdLeast, zstdMost, otherMost = -131072, 22, 9
)

// DefaultCodecs are tried for elements of so many bytes.
func DefaultCodecs(elementBytes int) []string {
	if elementBytes < 2 {
		return []string{"none", "lz4", "zstd:1", "zstd:3", "zstd:5", "blosc-lz4-bitshuffle", "blosc-zstd-bitshuffle"}
	}
	return []string{
		"none", "lz4", "zstd:1", "zstd:3", "zstd:5", "shuffle+lz4", "shuffle+zstd:1", "shuffle+zstd:3",
		"blosc-lz4", "blosc-lz4-bitshuffle", "blosc-zstd", "blosc-zstd-bitshuffle",
	}
}

// CodecNames are the names that a candidate may have. A level may follow after a colon,
// and "shuffle+" go before those that do not shuffle.
func CodecNames() []string {
	names := []string{"none", "lz4", "zstd", "gzip", "zlib"}
	for _, cname := range bloscInside() {
		for _, mode := range []string{"", "-bitshuffle", "-noshuffle"} {
			names = append(names, "blosc-"+cname+mode)
		}
	}
	return names
}

func bloscInside() []string { return []string{"lz4", "lz4hc", "zstd", "zlib", "blosclz"} }

// parseCodec makes the stages of a name, in the order of decoding.
func parseCodec(name string, elementBytes int) ([]stage, error) {
	rest, shuffled := strings.CutPrefix(name, "shuffle+")
	base, level, leveled := strings.Cut(rest, ":")
	n := -1
	if leveled {
		var err error
		if n, err = strconv.Atoi(level); err != nil {
			return nil, nd.Errorf(nd.ErrConfig, "codec %q: %q is not a level", name, level)
		}
		if least, most := levels(base); n < least || n > most {
			return nil, nd.Errorf(nd.ErrConfig, "codec %q: level %d, of %d to %d", name, n, least, most)
		}
	}
	var list []stage
	config, plain := "{}", base
	switch flavour, blosc := strings.CutPrefix(base, "blosc-"); {
	case blosc:
		cname, mode, _ := strings.Cut(flavour, "-")
		plain = "blosc"
		modes := map[string]int{"": 1, "bitshuffle": 2, "noshuffle": 0}
		shuffle, ok := modes[mode]
		if !ok || !slices.Contains(bloscInside(), cname) || shuffled {
			return nil, unknownCodec(name)
		}
		config = fmt.Sprintf(`{"cname":%q,"clevel":%d,"shuffle":%d,"typesize":%d}`, cname, or(n, leveled, bloscLevel), shuffle, elementBytes)
	case base == "zstd":
		config = fmt.Sprintf(`{"level":%d}`, or(n, leveled, zstdLevel))
	case base == "gzip" || base == "zlib":
		config = fmt.Sprintf(`{"level":%d}`, or(n, leveled, deflateLevel))
	case (base == "lz4" || base == "none") && !leveled:
	default:
		return nil, unknownCodec(name)
	}
	if plain != "none" {
		list = append(list, stage{config: json.RawMessage(config)})
	}
	if shuffled {
		list = append(list, stage{config: json.RawMessage(fmt.Sprintf(`{"elementsize":%d}`, elementBytes))})
	}
	for i := range list {
		of := plain
		if shuffled && i == len(list)-1 {
			of = "shuffle"
		}
		var err error
		if list[i].Codec, err = codec.New(of, list[i].config); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// levels are those of a codec.
func levels(base string) (least, most int) {
	if base == "zstd" {
		return zstdLeast, zstdMost
	}
	return 0, otherMost
}

func or(n int, given bool, otherwise int) int {
	if given {
		return n
	}
	return otherwise
}

func unknownCodec(name string) error {
	return nd.Errorf(nd.ErrConfig, "codec %q: one of %s; a level as in zstd:1; shuffle+ before zstd, lz4, gzip, zlib and none", name, strings.Join(CodecNames(), ", "))
}

// trial is chunks as the candidates are given them: without the codecs on bytes. Of
// large ones it has the begin.
type trial struct {
	plain        [][]byte
	elementBytes int
	// The chunks that plain is of, as they are stored, and what those are decoded to by
	// the codecs on bytes.
	stored [][]byte
	sizes  []int
	// What the filters behind those codecs do, where there are some: decoded bytes for
	// each that they are given, and seconds a decoded GB.
	expansion, restCost float64
}

// try encodes the pieces with a candidate's stages and measures it.
func (p *probe) try(ctx context.Context, t *trial, name string, stages []stage) (c Candidate, s Structure, encoded [][]byte, err error) {
	c = Candidate{Codec: name}
	encoded = make([][]byte, len(t.plain))
	var done atomic.Int64
	phase := "try " + name
	err = p.each(ctx, len(t.plain), runtime.GOMAXPROCS(0), func(i int) (err error) {
		encoded[i], err = encode(stages, t.plain[i])
		p.say(phase, done.Add(1), int64(len(t.plain)))
		return err
	})
	if err != nil {
		return c, s, nil, err
	}
	coding := codingOf(stages)
	for i, data := range encoded {
		if err := s.Add(coding.method, coding.body(data), int64(len(t.plain[i]))); err != nil {
			return c, s, nil, nd.Errorf(nd.ErrBug, "what %s has just written: %w", name, err)
		}
	}
	c.Ratio = float64(s.Decoded) / float64(max(1, s.Stored))
	if s.Plain < s.Decoded { // else blosc kept it as it was
		c.HostGBPerSCore, err = p.rateOf(ctx, stages, encoded, t.plain)
	}
	return c, s, encoded, err
}

func encode(stages []stage, data []byte) ([]byte, error) {
	for _, s := range slices.Backward(stages) {
		var err error
		if data, err = s.Encode(nil, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// rateOf is the rate of one core with stages on bytes; 0 without any. What comes out is
// compared once with what must.
func (p *probe) rateOf(ctx context.Context, stages []stage, encoded, plain [][]byte) (float64, error) {
	if len(stages) == 0 || len(encoded) == 0 {
		return 0, nil
	}
	chain, err := codec.NewChain(codecs(stages), -1)
	if err != nil {
		return 0, err
	}
	d := decoding{chain: chain, chunks: encoded, sizes: make([]int, len(encoded))}
	scratch := codec.NewScratch()
	defer scratch.Close()
	for i := range encoded {
		d.sizes[i] = len(plain[i])
	}
	out, err := chain.Decode(make([]byte, d.sizes[0]), encoded[0], scratch)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(out, plain[0]) {
		return 0, nd.Errorf(nd.ErrBug, "a chunk that was just encoded is decoded to other bytes")
	}
	return p.one(ctx, d, p.options.Time/2)
}
