package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// shownBatch is the JSON of order show.
type shownBatch struct {
	Epoch, Step, First int64
	Samples            []int64
	Ranks              []struct {
		Rank      int
		First     *int64
		Count     *int64
		Positions []int64
	}
}

func showBatches(t *testing.T, args ...string) (batches []shownBatch) {
	t.Helper()
	for line := range strings.Lines(must(t, append([]string{"order", "show", "--json"}, args...)...)) {
		var b shownBatch
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		batches = append(batches, b)
	}
	return batches
}

// The command shows what the stream gives, batch by batch and rank by rank.
func TestOrderShow(t *testing.T) {
	s := sampler.Stream{N: 50, Global: 12, Seed: 7, Fingerprint: "ab", Shuffle: true}
	args := strings.Fields("--n 50 --global 12 --seed 7 --fingerprint ab --epoch 3 --world 5")
	batches := showBatches(t, args...)
	if len(batches) != 5 {
		t.Fatalf("%d batches, want 5", len(batches))
	}
	for step, b := range batches {
		if b.Epoch != 3 || b.Step != int64(step) || b.First != int64(step)*12 || !slices.Equal(b.Samples, s.Batch(3, int64(step))) || len(b.Ranks) != 5 {
			t.Errorf("step %d: %+v", step, b)
		}
		for rank, r := range b.Ranks {
			if want := s.Slice(int64(step), rank, 5); r.Rank != rank || *r.First != want.Start || *r.Count != want.Len() || r.Positions != nil {
				t.Errorf("step %d rank %d: %d+%d, want %v", step, rank, *r.First, *r.Count, want)
			}
		}
	}
	one := showBatches(t, append(args, "--step", "2", "--rank", "3")...)
	slice := s.Slice(2, 3, 5)
	if len(one) != 1 || one[0].First != slice.Start || len(one[0].Ranks) != 1 || !slices.Equal(one[0].Samples, s.Order(3).Samples(slice)) {
		t.Errorf("one rank: %+v, want %v", one, slice)
	}
	// The names are a promise to scripts.
	line := must(t, append([]string{"order", "show", "--json", "--step", "4", "--no-shuffle"}, args...)...)
	const want = `{"epoch":3,"step":4,"first":48,"samples":[48,49],"ranks":[{"rank":0,"first":48,"count":0},{"rank":1,"first":48,"count":0},{"rank":2,"first":48,"count":1},{"rank":3,"first":49,"count":0},{"rank":4,"first":49,"count":1}]}` + "\n"
	if line != want {
		t.Errorf("got  %swant %s", line, want)
	}
	text := must(t, "order", "show", "--n", "100", "--global", "40", "--world", "2", "--no-shuffle", "--step", "1")
	if want := "epoch 0  step 1  positions 40:80\n  rank 0  40:60   40 41 42 43 44 45 46 47 48 49 50 51 … 8 more\n  rank 1  60:80   60 61"; !strings.HasPrefix(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
	if text := must(t, "order", "show", "--n", "0", "--global", "4"); text != "" {
		t.Errorf("no sample: %q", text)
	}
}

// Shuffled by blocks, with samples at their home node, a rank's positions are
// listed; blocks of unequal size come from a file.
func TestOrderShowBlocks(t *testing.T) {
	root := files(t, map[string]string{"sizes": "5\n3\n6\n4\n2\n", "bad": "5\nx\n", "none": "0\n"})
	blocks, err := sampler.NewBlocks([]int64{5, 3, 6, 4, 2})
	if err != nil {
		t.Fatal(err)
	}
	s := sampler.Stream{N: 20, Global: 6, Shuffle: true, Blocks: blocks, Window: 3, Nodes: 2}
	e := s.Epoch(0)
	args := strings.Fields("--n 20 --global 6 --window 3 --nodes 2 --world 4 --blocks " + root + "/sizes")
	listed := false
	for step, b := range showBatches(t, args...) {
		if !slices.Equal(b.Samples, s.Batch(0, int64(step))) {
			t.Errorf("step %d: %v, want %v", step, b.Samples, s.Batch(0, int64(step)))
		}
		for rank, r := range b.Ranks {
			got := r.Positions
			if r.First != nil {
				for i := range *r.Count {
					got = append(got, *r.First+i)
				}
			} else {
				listed = true
			}
			if want := e.Positions(int64(step), rank, 4); !slices.Equal(got, want) {
				t.Errorf("step %d rank %d: %v, want %v", step, rank, got, want)
			}
		}
	}
	if !listed {
		t.Error("no rank has positions that are not in a row: the test shows nothing")
	}
	where := parsed(t, must(t, append([]string{"order", "where", "--json", "--sample", "7"}, args...)...))
	if at := s.Where(0, 7, 4); where["position"] != float64(at.Position) || where["rank"] != float64(at.Rank) {
		t.Errorf("where says %v, want %+v", where, at)
	}
	equal := showBatches(t, "--n", "1000", "--global", "100", "--block", "10", "--step", "3")
	plain := sampler.Stream{N: 1000, Global: 100, Shuffle: true, Block: 10, Window: sampler.DefaultWindow}
	if !slices.Equal(equal[0].Samples, plain.Batch(0, 3)) {
		t.Errorf("the default window: %v", equal[0].Samples)
	}
	fails(t, 1, []string{"order", "show", "--n", "5", "--global", "1", "--blocks", root + "/absent"}, "absent")
	fails(t, 2, []string{"order", "show", "--n", "5", "--global", "1", "--blocks", root + "/bad"}, "line 2")
	fails(t, 2, []string{"order", "show", "--n", "5", "--global", "1", "--blocks", root + "/none"}, "block 0")
	fails(t, 2, []string{"order", "show", "--n", "5", "--global", "1", "--blocks", root + "/sizes"}, "20 samples, N is 5")
}

func TestOrderQuality(t *testing.T) {
	args := strings.Fields("order show --quality --n 1000000 --global 256 --block 1000 --window 64 --nodes 4 --world 8")
	r := parsed(t, must(t, append(args, "--json")...))
	hasKeys(t, r, "blocks windows window_blocks window_samples distinct_blocks full_shuffle neighbours home_reads")
	if d := r["distinct_blocks"].(float64); d < 62 || d > 64.5 || r["windows"] != 16.0 {
		t.Errorf("figures %v", r)
	}
	if text := must(t, args...); !strings.Contains(text, "windows                     16, each of 64 blocks with 64000 samples") || !strings.Contains(text, "read on the home node") {
		t.Errorf("got %s", text)
	}
	if r := parsed(t, must(t, "order", "show", "--quality", "--n", "100", "--global", "10", "--json")); r["home_reads"] != nil || r["windows"] != 1.0 {
		t.Errorf("without blocks: %v", r)
	}
}

func TestOrderWhere(t *testing.T) {
	s := sampler.Stream{N: 50, Global: 12, Shuffle: true, Tail: sampler.TailDrop, Replicas: 2}
	for sample := range s.N {
		at := s.Where(1, sample, 6)
		got := must(t, "order", "where", "--json", "--n", "50", "--global", "12", "--epoch", "1", "--world", "6", "--replicas", "2", "--tail", "drop", "--sample", fmt.Sprint(sample))
		want := fmt.Sprintf("{\n  \"sample\": %d,\n  \"epoch\": 1,\n  \"position\": %d,\n  \"step\": %d,\n  \"rank\": %d\n}\n", sample, at.Position, at.Step, at.Rank)
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	text := must(t, "order", "where", "--n", "50", "--global", "12", "--sample", "49", "--no-shuffle", "--tail", "drop")
	if text != "sample 49  epoch 0  position 49  left out by --tail drop\n" {
		t.Errorf("got %q", text)
	}
}

func TestOrderVerify(t *testing.T) {
	e := sampler.Stream{N: 300_000, Global: 7, Seed: 2, Fingerprint: "ab", Shuffle: true, Tail: sampler.TailDrop}.Epoch(4)
	args := strings.Fields("order verify --n 300000 --seed 2 --fingerprint ab --epoch 4")
	dropped := append(slices.Clone(args), "--tail", "drop", "--global", "7")
	digest := e.Digest(e.Delivered())
	want := fmt.Sprintf("{\n  \"epoch\": 4,\n  \"count\": 299999,\n  \"digest\": \"%s\"\n}\n", digest)
	if got := must(t, append(dropped, "--json")...); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	whole := e.Digest(nd.Span{Stop: e.N})
	if got := must(t, args...); got != fmt.Sprintf("epoch 4  300000 samples  digest %s\n", whole) {
		t.Errorf("got %q, want digest %s", got, whole)
	}
	must(t, append(args, "--digest", strings.ToUpper(whole.String()))...)
	fails(t, 1, append(args, "--digest", digest.String()), "the plan gives "+whole.String(), "300000 samples")
}

// cancelOnWrite is a reader that has seen enough.
type cancelOnWrite struct{ cancel context.CancelFunc }

func (c cancelOnWrite) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

// An epoch that takes days to list or to verify ends at Ctrl-C.
func TestOrderInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, args := range []string{"order show --n 4000000000000000000 --global 2 --json", "order show --n 4000000000000000000 --global 4000000000000000000 --json", "order verify --n 4000000000000000000"} {
		var stderr bytes.Buffer
		if code := run(ctx, strings.Fields(args), cancelOnWrite{cancel}, &stderr); code != exitInterrupted || stderr.String() != "headrace: interrupted\n" {
			t.Errorf("%s: exit %d %q", args, code, &stderr)
		}
	}
}

// A batch need not fit the memory to be shown.
func TestOrderShowLargestBatch(t *testing.T) {
	out := must(t, strings.Fields("order show --n 9223372036854775807 --global 9223372036854775807 --world 2")...)
	if !strings.Contains(out, "rank 1  4611686018427387903:9223372036854775807") || strings.Count(out, "… 46116860184273878") != 2 {
		t.Error(out)
	}
}

// A file of blocks without end is not read to its end.
func TestOrderEndlessBlocks(t *testing.T) {
	fails(t, 1, strings.Fields("order show --n 4 --global 2 --blocks /dev/zero"), "line 1: bufio.Scanner: token too long")
}

func TestOrderMistakes(t *testing.T) {
	for _, c := range []struct{ args, word string }{
		{"order frobnicate", `unknown command "frobnicate"`},
		{"order show now", "too many"},
		{"order show --global 4", "--n is missing"},
		{"order show --n 4", "--global is missing"},
		{"order show --n -1 --global 4", "N is -1"},
		{"order show --n 4 --global 0", "Global is 0"},
		{"order show --n 4 --global 2 --world 0", "0 ranks"},
		{"order show --n 4 --global 2 --world 4 --replicas 3", "Replicas is 3"},
		{"order show --n 4 --global 2 --rank 1", "--rank is 1: the world has 1"},
		{"order show --n 4 --global 2 --step 2", "--step is 2: the epoch has 2"},
		{"order show --n 4 --global 2 --step -1", "--step is -1"},
		{"order show --n 4 --global 2 --epoch -1", "--epoch is -1"},
		{"order show --n 4 --global 2 --tail end", `tail "end"`},
		{"order show --n many --global 2", "invalid argument"},
		{"order show --n 4 --global 2 --window 2", "Window is 2 without blocks"},
		{"order show --n 4 --global 2 --block 2 --nodes 1000000000000 --world 1000000000000", "Nodes is 1000000000000"},
		{"order show --n 4 --global 2 --nodes 1", "Nodes is 1 without blocks"},
		{"order show --n 4 --global 2 --block 2 --window 0", "Window is 0"},
		{"order show --n 4 --global 2 --block 2 --nodes 2 --world 3", "on 2 nodes"},
		{"order where --n 4 --global 2", "--sample is missing"},
		{"order where --n 4 --global 2 --sample 4", "--sample is 4"},
		{"order verify", "--n is missing"},
		{"order verify --n 4 --tail drop", "--global is missing"},
		{"order verify --n 4 --digest 00", "32 hex digits"},
	} {
		fails(t, 2, strings.Fields(c.args), c.word, "--help`")
	}
}

// What docs/order.md shows is what the commands print.
func TestOrderDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/order.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		if block[1] != "console" {
			continue
		}
		for example := range strings.SplitSeq(block[2], "$ ") {
			command, want, _ := strings.Cut(example, "\n")
			if command == "" {
				continue
			}
			args, ok := strings.CutPrefix(command, "headrace ")
			if got := must(t, strings.Fields(args)...); !ok || got != want {
				t.Errorf("%s prints\n%s\ndocs/order.md has\n%s", command, got, want)
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("%d examples", ran)
	}
}
