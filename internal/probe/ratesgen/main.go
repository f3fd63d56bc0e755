// Command ratesgen writes the rates that `headrace probe` predicts from, out of what was
// measured on a GPU:
//
//	go run ./internal/probe/ratesgen [-sets DIR] bench/results internal/probe/rates.json
//
// Of each kind of file (zstd, kernels, gpu) it takes the newest. A row of such a file
// that names data which rates.json does not know needs its frames, to count what is
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

// chunkBytes is the size of chunks in files that do not say it.
const chunkBytes = 256 << 10

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

func write(pick func(kind string) (string, error), out, sets string) error {
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

// newestIn picks the newest file of a kind in a folder: their names end in the date.
func newestIn(folder string) func(kind string) (string, error) {
	return func(kind string) (string, error) {
		names, err := filepath.Glob(filepath.Join(folder, kind+"-[0-9]*.json"))
		if err != nil || len(names) == 0 {
			return "", errors.Join(err, fmt.Errorf("no %s-*.json in %s", kind, folder))
		}
		return slices.Max(names), nil
	}
}

// generate is the text of rates.json.
func generate(pick func(kind string) (string, error), known map[string]probe.Set, sets string) ([]byte, error) {
	g := &generator{pick: pick, sets: sets, known: known}
	g.rates.Sets = map[string]probe.Set{}
	for _, step := range []func() error{g.zstd, g.kernels, g.engine} {
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
	pick  func(kind string) (string, error)
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
	MS               float64
	GBPerS           float64  `json:"GB_per_s"`
	Copied           float64  `json:"copied_gb_per_s"`
	Sequences        *float64 `json:"sequences_per_kib"`
	Literals         float64  `json:"literal_share"`
}

// read reads the file of a kind and adds it to the sources.
func (g *generator) read(kind string) (r record, source int, err error) {
	name, err := g.pick(kind)
	if err != nil {
		return r, 0, err
	}
	doc, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(doc, &r)
	}
	if err != nil {
		return r, 0, fmt.Errorf("%s: %w", name, err)
	}
	gpu, _, _ := strings.Cut(r.Machine.GPU, ",")
	g.rates.Sources = append(g.rates.Sources, probe.Source{File: "bench/results/" + filepath.Base(name), GPU: gpu, Date: r.Date, Commit: r.Commit})
	return r, len(g.rates.Sources) - 1, nil
}

// zstd takes the calls of our own kernels, one at a time and several in flight.
func (g *generator) zstd() error {
	r, source, err := g.read("zstd")
	if err != nil {
		return err
	}
	for _, at := range r.Rows {
		c := at.Result
		if c.What != "own" && c.What != "steady" || path.Base(c.Image) != "kernels.ptx" {
			continue // nvCOMP's, and variants that were tried
		}
		name := "zstd " + strings.TrimSuffix(filepath.Base(c.Set), ".bin")
		size := cmp.Or(c.ChunkBytes, r.ChunkBytes, chunkBytes)
		if err := g.set(name, "zstd", size, c); err != nil {
			return err
		}
		g.call(name, c.Chunks, max(1, c.InFlight), c.MS, source)
	}
	return nil
}

// kernels takes LZ4, and the rate of assembly. Of several grids the fastest counts.
func (g *generator) kernels() error {
	r, source, err := g.read("kernels")
	if err != nil {
		return err
	}
	for _, d := range r.Data {
		perKiB := d.Sequences / (chunkBytes / 1024)
		if err := g.set(d.What, "lz4", chunkBytes, row{Sequences: &perKiB}); err != nil {
			return err
		}
	}
	for _, at := range r.Rows {
		c := at.Result
		if _, known := g.rates.Sets[c.What]; known && c.Image != "nvCOMP" {
			g.call(c.What, c.Items, 1, c.MS, source)
		}
		if c.What == "assemble u16 f32" && c.GBPerS > g.rates.Assemble.GBPerS {
			g.rates.Assemble = probe.Rate{GBPerS: c.GBPerS, Row: at.Name, Source: source}
		}
	}
	return nil
}

// engine takes the rate of copies of a whole run of uncompressed chunks.
func (g *generator) engine() error {
	r, source, err := g.read("gpu")
	if err != nil {
		return err
	}
	for _, at := range r.Rows {
		if at.Name == "raw-none" {
			g.rates.Copy = probe.Rate{GBPerS: at.Result.Copied, Row: at.Name, Source: source}
			return nil
		}
	}
	return errors.New("the newest gpu-*.json has no row raw-none")
}

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
	case g.sets != "":
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
