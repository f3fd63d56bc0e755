package sampler_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// The vectors come from golden.py, which is written from the specification in
// doc.go. They are frozen: if this test fails, states that users have stored no
// longer find their place.
//
//go:embed testdata/golden.json
var goldenJSON []byte

type goldenCrops struct {
	Crop        []int64
	Shapes      [][]int64
	Weight      string
	Tail        string
	Flips       []int
	Stride      []int64
	Seed        uint64
	Count       int64
	Fingerprint string
	Samples     []struct {
		I     int64
		Group int
		Start []int64
		Flip  []int
	}
}

type goldenBlocks struct {
	Fingerprint  string
	N, Global    int64
	Seed         uint64
	Epoch        int64
	Block        int64
	Sizes        []int64
	Window       int
	Plan         string
	At           [][2]int64
	Nodes, World int
	Parts        [][][]int64 // by step and rank
}

// stream is the stream that golden.py means.
func (g *goldenBlocks) stream(t *testing.T) sampler.Stream {
	t.Helper()
	s := sampler.Stream{N: g.N, Global: g.Global, Seed: g.Seed, Fingerprint: g.Fingerprint, Shuffle: true, Block: g.Block, Window: g.Window, Nodes: g.Nodes}
	if g.Block == 0 {
		blocks, err := sampler.NewBlocks(g.Sizes)
		if err != nil {
			t.Fatal(err)
		}
		s.Blocks = blocks
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

type golden struct {
	Orders []struct {
		N           int64
		Fingerprint string
		Seed        uint64
		Epoch       int64
		At          [][2]int64
	}
	Plans []struct {
		Fingerprint string
		N, Global   int64
		Seed        uint64
		Shuffle     bool
		Tail        string
		Plan        string
	}
	Digests []struct {
		N           int64
		Fingerprint string
		Seed        uint64
		Epoch       int64
		Count       int64
		Digest      string
		Data        string
	}
	Blocked []goldenBlocks
	Local   []goldenBlocks
	Random  []goldenCrops
	Grid    goldenCrops
	Shard   struct {
		goldenCrops
		Shards [][]int64
		Sizes  []int64
		Crops  [][]int64 // group and starts of each seventh sample
	} `json:"by_shard"`
	Mixes []struct {
		Lengths, Shares []int64
		Weights         []float64
		Count           int64
		Seed            uint64
		Fingerprint     string
		Origins         [][4]int64 // epoch, index, part, sample
	}
	Weighted []struct {
		Weights     []float64
		Count       int64
		Seed        uint64
		Fingerprint string
		Origins     [][]int64 // of epochs 0, 1, 77
	}
	Table struct {
		Rows        [][3]any // array, start, flip
		Fingerprint string
	}
	List struct {
		Boxes       [][]int64
		Flips       []uint32
		Shape       []int64
		Fingerprint string
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	if err := json.Unmarshal(goldenJSON, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g goldenCrops) fields() []sampler.Field {
	f := sampler.Field{Name: "image", Crop: g.Crop}
	for i, shape := range g.Shapes {
		f.Arrays = append(f.Arrays, sampler.Array{Index: i, Name: fmt.Sprint("array ", i), Shape: shape, Canonical: []byte("{}")})
	}
	return []sampler.Field{f}
}

func TestGoldenOrders(t *testing.T) {
	for _, g := range readGolden(t).Orders {
		o := sampler.New(g.N, sampler.EpochKey(g.Fingerprint, g.N, g.Seed, g.Epoch))
		for _, pair := range g.At {
			if got := o.At(pair[0]); got != pair[1] {
				t.Errorf("n %d, %q, seed %d, epoch %d: At(%d) is %d, want %d", g.N, g.Fingerprint, g.Seed, g.Epoch, pair[0], got, pair[1])
			}
			if got := o.Where(pair[1]); got != pair[0] {
				t.Errorf("n %d, %q, seed %d, epoch %d: Where(%d) is %d, want %d", g.N, g.Fingerprint, g.Seed, g.Epoch, pair[1], got, pair[0])
			}
		}
	}
}

func TestGoldenPlans(t *testing.T) {
	for _, g := range readGolden(t).Plans {
		tail, err := sampler.ParseTail(g.Tail)
		if err != nil {
			t.Fatal(err)
		}
		s := sampler.Stream{N: g.N, Global: g.Global, Seed: g.Seed, Fingerprint: g.Fingerprint, Shuffle: g.Shuffle, Tail: tail}
		if got := s.PlanHash(); got != g.Plan {
			t.Errorf("%+v: plan %s, want %s", s, got, g.Plan)
		}
	}
}

func TestGoldenDigests(t *testing.T) {
	for _, g := range readGolden(t).Digests {
		s := sampler.Stream{N: g.N, Global: 1, Fingerprint: g.Fingerprint, Seed: g.Seed, Shuffle: true}
		e, span := s.Epoch(g.Epoch), nd.Span{Stop: g.Count}
		if got := e.Digest(span); got.String() != g.Digest || got.Count != g.Count {
			t.Errorf("n %d: digest %v of %d, want %s", g.N, got, got.Count, g.Digest)
		}
		key := s.DigestKey(g.Epoch)
		var data sampler.DataDigest
		for p, sample := range e.Order().Samples(span) {
			key.AddData(&data, int64(p), sample, sampler.Content(fmt.Appendf(nil, "image %d", sample), []byte("mask")))
		}
		if data.String() != g.Data || data.Count != g.Count {
			t.Errorf("n %d: data digest %v of %d, want %s", g.N, data, data.Count, g.Data)
		}
	}
}

// The vectors are what golden.py writes, where there is a Python to run it.
func TestGoldenIsGenerated(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	out, err := exec.CommandContext(t.Context(), python, "testdata/golden.py").Output()
	if err != nil || string(out) != string(goldenJSON) {
		t.Errorf("golden.py writes other vectors than testdata/golden.json (%v)", err)
	}
}

func TestGoldenBlocks(t *testing.T) {
	for _, g := range readGolden(t).Blocked {
		s := g.stream(t)
		if got := s.PlanHash(); got != g.Plan {
			t.Errorf("blocks %v: plan %s, want %s", g.Sizes, got, g.Plan)
		}
		o := s.Order(g.Epoch)
		for _, pair := range g.At {
			if got := o.At(pair[0]); got != pair[1] || o.Where(pair[1]) != pair[0] {
				t.Errorf("blocks %v, window %d: At(%d) is %d, want %d, which lies at %d", g.Sizes, g.Window, pair[0], got, pair[1], o.Where(pair[1]))
			}
		}
	}
}

func TestGoldenLocality(t *testing.T) {
	for _, g := range readGolden(t).Local {
		s := g.stream(t)
		e := s.Epoch(g.Epoch)
		if int(s.Steps()) != len(g.Parts) {
			t.Errorf("blocks %v: %d steps, want %d", g.Sizes, s.Steps(), len(g.Parts))
		}
		for step, parts := range g.Parts {
			for rank, want := range parts {
				if got := e.Positions(int64(step), rank, g.World); !slices.Equal(got, want) {
					t.Errorf("blocks %v, step %d, rank %d: %v, want %v", g.Sizes, step, rank, got, want)
				}
			}
		}
	}
}

func TestGoldenRandomCrops(t *testing.T) {
	for _, g := range readGolden(t).Random {
		weight, err := sampler.ParseWeight(g.Weight)
		if err != nil {
			t.Fatal(err)
		}
		r, err := sampler.NewRandom(sampler.RandomCrops{Fields: g.fields(), Count: g.Count, Weight: weight, Seed: g.Seed, Flips: g.Flips})
		if err != nil {
			t.Fatal(err)
		}
		if r.Fingerprint() != g.Fingerprint {
			t.Errorf("%v: fingerprint %s, want %s", g.Shapes, r.Fingerprint(), g.Fingerprint)
		}
		for _, want := range g.Samples {
			crop := r.Sample(want.I).Crops[0]
			var flip uint32
			for _, axis := range want.Flip {
				flip |= 1 << (axis + len(g.Crop))
			}
			box := make(nd.Box, len(g.Crop))
			for i, n := range g.Crop {
				box[i] = nd.Span{Start: want.Start[i], Stop: want.Start[i] + n}
			}
			if crop.Array != want.Group || crop.Box.String() != box.String() || crop.Flip != flip {
				t.Errorf("%v sample %d: got %+v, want array %d box %s flip %b", g.Shapes, want.I, crop, want.Group, box, flip)
			}
		}
	}
}

func TestGoldenGridByShard(t *testing.T) {
	g := readGolden(t).Shard
	fields := g.fields()
	for i := range fields[0].Arrays {
		fields[0].Arrays[i].Shard = g.Shards[i]
	}
	tail, err := sampler.ParseGridTail(g.Tail)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := sampler.NewGrid(sampler.GridCrops{Fields: fields, Stride: g.Stride, Tail: tail, ByShard: true})
	if err != nil {
		t.Fatal(err)
	}
	if grid.Fingerprint() != g.Fingerprint {
		t.Errorf("fingerprint %s, want %s", grid.Fingerprint(), g.Fingerprint)
	}
	for b, size := range g.Sizes {
		if got := grid.Blocks().Span(int64(b)).Len(); got != size {
			t.Errorf("shard %d has %d crops, want %d", b, got, size)
		}
	}
	for k, want := range g.Crops {
		c := grid.Sample(int64(7 * k)).Crops[0]
		if c.Array != int(want[0]) || c.Box[0].Start != want[1] || c.Box[1].Start != want[2] {
			t.Errorf("sample %d: %+v, want group and starts %v", 7*k, c, want)
		}
	}
}

// part is the random source that golden.py mixes and weighs.
func (g golden) part(t *testing.T, n int64) sampler.Source {
	t.Helper()
	c := g.Random[0]
	c.Shapes = c.Shapes[:1]
	r, err := sampler.NewRandom(sampler.RandomCrops{Fields: c.fields(), Count: n, Flips: []int{-1}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGoldenMixes(t *testing.T) {
	all := readGolden(t)
	for _, g := range all.Mixes {
		c := sampler.MixedSources{Count: g.Count, Seed: g.Seed}
		for k, n := range g.Lengths {
			c.Parts = append(c.Parts, sampler.MixPart{Source: all.part(t, n), Weight: g.Weights[k]})
		}
		m, err := sampler.NewMix(c)
		if err != nil {
			t.Fatal(err)
		}
		if m.Fingerprint() != g.Fingerprint || !slices.Equal(m.Shares(), g.Shares) {
			t.Errorf("%v: %s with shares %v, want %s with %v", g.Weights, m.Fingerprint(), m.Shares(), g.Fingerprint, g.Shares)
		}
		for _, o := range g.Origins {
			part, sample := m.InEpoch(o[0]).(*sampler.Mix).Origin(o[1])
			if int64(part) != o[2] || sample != o[3] {
				t.Errorf("%v: epoch %d index %d is sample %d of part %d, want %d of %d", g.Weights, o[0], o[1], sample, part, o[3], o[2])
			}
		}
	}
}

func TestGoldenWeighted(t *testing.T) {
	all := readGolden(t)
	for _, g := range all.Weighted {
		w, err := sampler.NewWeighted(sampler.WeightedSamples{Source: all.part(t, int64(len(g.Weights))), Weights: g.Weights, Count: g.Count, Seed: g.Seed})
		if err != nil {
			t.Fatal(err)
		}
		if w.Fingerprint() != g.Fingerprint {
			t.Errorf("%v: fingerprint %s, want %s", g.Weights, w.Fingerprint(), g.Fingerprint)
		}
		for k, epoch := range []int64{0, 1, 77} {
			var got []int64
			for i := range g.Count {
				got = append(got, w.InEpoch(epoch).(*sampler.Weighted).Origin(i))
			}
			if !slices.Equal(got, g.Origins[k]) {
				t.Errorf("%v epoch %d: %v, want %v", g.Weights, epoch, got, g.Origins[k])
			}
		}
	}
}

func TestGoldenTable(t *testing.T) {
	g := readGolden(t)
	var text strings.Builder
	for _, row := range g.Table.Rows {
		doc, err := json.Marshal(map[string]any{"array": row[0], "start": row[1], "flip": row[2]})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(doc, '\n'))
	}
	table, err := sampler.ReadJSONLines(strings.NewReader(text.String()), sampler.TableCrops{Fields: g.Grid.fields()})
	if err != nil || table.Fingerprint() != g.Table.Fingerprint {
		t.Errorf("table: %v %v, want %s", table, err, g.Table.Fingerprint)
	}
}

func TestGoldenFingerprints(t *testing.T) {
	g := readGolden(t)
	tail, err := sampler.ParseGridTail(g.Grid.Tail)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := sampler.NewGrid(sampler.GridCrops{Fields: g.Grid.fields(), Stride: g.Grid.Stride, Tail: tail})
	if err != nil || grid.Fingerprint() != g.Grid.Fingerprint {
		t.Errorf("grid: %s %v, want %s", grid.Fingerprint(), err, g.Grid.Fingerprint)
	}
	crops := sampler.CropList{Arrays: []sampler.Array{{Index: 5, Shape: g.List.Shape, Canonical: []byte("{}")}}}
	for i, b := range g.List.Boxes {
		box := nd.Box{{Start: b[0], Stop: b[1]}, {Start: b[2], Stop: b[3]}}
		crops.Samples = append(crops.Samples, []sampler.Crop{{Array: 5, Box: box, Flip: g.List.Flips[i]}})
	}
	list, err := sampler.NewList(crops)
	if err != nil || list.Fingerprint() != g.List.Fingerprint {
		t.Errorf("list: %v %v, want %s", list, err, g.List.Fingerprint)
	}
}
