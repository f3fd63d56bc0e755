// Command ratesgen writes the rates that `headrace probe` predicts from, out of what was
// measured on a GPU:
//
//	go run ./internal/probe/ratesgen [-sets DIR] bench/results internal/probe/rates.json
//
// Of each kind of file (decoders, kernels, inflate, gpu) it takes the newest that has the rows
// that are wanted. A row of such a file that names data which rates.json does not know needs its frames, to count what is
// inside: DIR has them as SET.bin, the form of bench/kernels/zstd.py; a row may also say
// it itself (sequences_per_kib, literal_share). Without -sets the counts that are
// there stay.
package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/probe"
)

const (
	chunkBytes = 256 << 10 // of chunks, in files that do not say it
	inFlight   = 3         // of "steady" rows, in files that do not say it: bench/kernels/zstd.cc
	image      = "cuda/kernels/kernels.ptx"
)

// sizes of chunks that names of sets end in.
func sizes() map[string]int64 { return map[string]int64{"64K": 64 << 10, "1M": 1 << 20, "8M": 8 << 20} }

func main() {
	sets := flag.String("sets", "", "folder of the sets' frames")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(newestIn(flag.Arg(0)), flag.Arg(1), *sets); err != nil {
		fmt.Fprintln(os.Stderr, "ratesgen:", err)
		os.Exit(1)
	}
}

// picker lists the files of a kind, best first.
type picker func(kind string) ([]string, error)

func write(pick picker, out, sets string) error {
	var old probe.Rates
	if doc, err := os.ReadFile(out); err == nil {
		if err := json.Unmarshal(doc, &old); err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
	}
	doc, err := generate(pick, old.Sets, sets)
	if err != nil {
		return err
	}
	return os.WriteFile(out, doc, 0o644)
}

// newestIn lists the files of a folder, the newest first: their names end in the date.
func newestIn(folder string) picker {
	return func(kind string) ([]string, error) {
		names, err := filepath.Glob(filepath.Join(folder, kind+"-[0-9]*.json"))
		slices.Sort(names)
		slices.Reverse(names)
		return names, err
	}
}

// generate is the text of rates.json.
func generate(pick picker, known map[string]probe.Set, sets string) ([]byte, error) {
	g := &generator{pick: pick, sets: sets, known: known}
	g.rates.Sets = map[string]probe.Set{}
	for _, step := range []func() error{g.zstd, g.kernels, g.inflate, g.engine} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if _, err := probe.NewModel(g.rates); err != nil {
		return nil, err
	}
	doc, err := json.MarshalIndent(g.rates, "", " ")
	return append(doc, '\n'), err
}

// generator collects rates.
type generator struct {
	pick  picker
	sets  string
	known map[string]probe.Set
	rates probe.Rates
}

// record is a file of bench/results.
type record struct {
	Commit     string
	Date       string
	Machine    struct{ GPU string }
	ChunkBytes int64 `json:"chunk_bytes"`
	Data       []struct {
		What      string
		Sequences float64 `json:"sequences_per_chunk"`
	}
	Rows []struct {
		Name   string
		Result row
	}
}

// row is what the programs of bench/kernels print, and the part of `headrace bench` that
// counts here.
type row struct {
	What, Set, Image string
	Chunks, Items    int
	ChunkBytes       int64 `json:"chunk_bytes"`
	InFlight         int   `json:"in_flight"`
	Unchecked        int   // 1: without checksums
	MS               float64
	GBPerS           float64  `json:"GB_per_s"`
	Copied           float64  `json:"copied_gb_per_s"`
	Sequences        *float64 `json:"sequences_per_kib"`
	Literals         float64  `json:"literal_share"`
}

// read reads the first file of a kind that has a wanted row, and adds it to the sources.
func (g *generator) read(kind string, wanted func(name string, r row) bool) (record, int, error) {
	names, err := g.pick(kind)
	if err != nil {
		return record{}, 0, err
	}
	for _, name := range names {
		var r record
		doc, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(doc, &r)
		}
		if err != nil {
			return r, 0, fmt.Errorf("%s: %w", name, err)
		}
		for _, at := range r.Rows {
			if wanted(at.Name, at.Result) {
				gpu, _, _ := strings.Cut(r.Machine.GPU, ",")
				g.rates.Sources = append(g.rates.Sources, probe.Source{File: "bench/results/" + filepath.Base(name), GPU: gpu, Date: r.Date, Commit: r.Commit})
				return r, len(g.rates.Sources) - 1, nil
			}
		}
	}
	return record{}, 0, fmt.Errorf("none of %d files %s-*.json has the rows that are wanted", len(names), kind)
}

// own tells calls of our kernels from those of others, and from variants that were tried.
func (r *row) own() bool {
	return (r.What == "own" || r.What == "steady") && path.Base(cmp.Or(r.Image, image)) == path.Base(image) && r.Unchecked == 0
}

// flight is how many calls were in flight.
func (r *row) flight() int {
	if r.What == "steady" {
		return cmp.Or(r.InFlight, inFlight)
	}
	return 1
}

// beyond are sets that the model has no words for, with what it has not. They are not left out of
// what is said: docs/probe.md has how far off it is on them.
func beyond() map[string]string {
	return map[string]string{
		"labels":           "long matches: the time goes with the bytes that they copy",
		"weather-shuffled": "long matches",
		"constant":         "RLE blocks: the time goes with the bytes that are written",
		"lm-8M":            "256 chunks of 8 MiB do not fill a GPU, and no call has more",
	}
}

// zstd takes the calls of our own kernels, one at a time and several in flight.
func (g *generator) zstd() error {
	r, source, err := g.read("decoders", func(_ string, c row) bool { return c.own() })
	if err != nil {
		return err
	}
	for _, at := range r.Rows {
		c := at.Result
		if _, out := beyond()[c.Set]; !c.own() || out {
			continue
		}
		name := "zstd " + strings.TrimSuffix(filepath.Base(c.Set), ".bin")
		size := cmp.Or(c.ChunkBytes, r.ChunkBytes, sizes()[name[strings.LastIndexByte(name, '-')+1:]], chunkBytes)
		if err := g.set(name, "zstd", size, c); err != nil {
			return err
		}
		g.call(name, c.Chunks, c.flight(), c.MS, source)
	}
	return nil
}

// inflate takes zlib's. Nobody counts what is inside.
func (g *generator) inflate() error {
	r, source, err := g.read("inflate", func(_ string, c row) bool { return c.own() })
	if err != nil {
		return err
	}
	for _, at := range r.Rows {
		c := at.Result
		if !c.own() {
			continue
		}
		if err := g.set(c.Set, "deflate", cmp.Or(c.ChunkBytes, chunkBytes), row{Sequences: new(float64)}); err != nil {
			return err
		}
		g.call(c.Set, c.Chunks, c.flight(), c.MS, source)
	}
	return nil
}

// families are the kernels that decode what a row of the other kernels names. Of most of
// these data nobody counts what is inside: then the rate is one for all.
func families() map[string]string {
	return map[string]string{
		"lz4": "lz4", "blosc-lz4": "lz4", "blosc-blosclz": "blosclz", "gzip": "deflate", "zlib": "deflate", "blosc-zlib": "deflate",
	}
}

const assembled = "assemble u16 f32"

// kernels takes the other decoders, and the rate of assembly. Of several grids the fastest
// counts.
func (g *generator) kernels() error {
	r, source, err := g.read("kernels", func(_ string, c row) bool { return c.What == assembled })
	if err != nil {
		return err
	}
	inside := map[string]float64{}
	for _, d := range r.Data {
		inside[d.What] = d.Sequences / (chunkBytes / 1024)
	}
	for _, at := range r.Rows {
		c := at.Result
		if family := families()[c.What]; family != "" && path.Base(c.Image) == path.Base(image) {
			perKiB := inside[c.What]
			if err := g.set(c.What, family, cmp.Or(c.ChunkBytes, chunkBytes), row{Sequences: &perKiB}); err != nil {
				return err
			}
			g.call(c.What, c.Items, 1, c.MS, source)
		}
		if c.What == assembled && c.GBPerS > g.rates.Assemble.GBPerS {
			g.rates.Assemble = probe.Rate{GBPerS: c.GBPerS, Row: at.Name, Source: source}
		}
	}
	return nil
}

// engine takes the rate of copies of a whole run of uncompressed chunks.
func (g *generator) engine() error {
	r, source, err := g.read("gpu", func(name string, c row) bool { return name == copied && c.Copied > 0 })
	if err != nil {
		return err
	}
	for _, at := range r.Rows {
		if at.Name == copied {
			g.rates.Copy = probe.Rate{GBPerS: at.Result.Copied, Row: at.Name, Source: source}
		}
	}
	return nil
}

// copied is the run of uncompressed chunks.
const copied = "raw-none"

func (g *generator) call(set string, chunks, inFlight int, ms float64, source int) {
	for i := range g.rates.Calls {
		if c := &g.rates.Calls[i]; c.Set == set && c.Chunks == chunks && c.InFlight == inFlight {
			c.MS = min(c.MS, ms)
			return
		}
	}
	g.rates.Calls = append(g.rates.Calls, probe.Measured{Set: set, Chunks: chunks, InFlight: inFlight, MS: ms, Source: source})
}

// set adds what is known of a set: from the row, from its frames, or from before.
func (g *generator) set(name, kernel string, size int64, c row) error {
	if _, done := g.rates.Sets[name]; done {
		return nil
	}
	s, known := g.known[name]
	s.Kernel, s.ChunkBytes = kernel, size
	switch frames := filepath.Join(g.sets, strings.TrimPrefix(name, kernel+" ")+".bin"); {
	case c.Sequences != nil:
		s.Features = probe.Features{SequencesPerKiB: *c.Sequences, LiteralShare: c.Literals}
	case g.sets != "" && !known:
		var err error
		if s.Features, err = count(frames, size); err != nil {
			return fmt.Errorf("%s: %w", frames, err)
		}
	case !known:
		return fmt.Errorf("what is inside the frames of set %q is not known: give their folder, -sets DIR", name)
	}
	g.rates.Sets[name] = s
	return nil
}

// count looks into all frames of a set: u32 n, u32 bytes of each, the frames.
func count(name string, size int64) (f probe.Features, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return f, err
	}
	torn := errors.New("it ends too early")
	if len(data) < 4 {
		return f, torn
	}
	n := int(binary.LittleEndian.Uint32(data))
	at := 4 + 4*n
	var s probe.Structure
	for i := range n {
		if len(data) < at {
			return f, torn
		}
		bytes := int(binary.LittleEndian.Uint32(data[4+4*i:]))
		if bytes > len(data)-at {
			return f, torn
		}
		if err := s.Add(probe.Zstd, data[at:at+bytes], size); err != nil {
			return f, err
		}
		at += bytes
	}
	return s.Features(), nil
}
