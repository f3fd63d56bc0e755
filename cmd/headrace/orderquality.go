package main

import (
	"bytes"
	"fmt"

	"github.com/headrace/headrace/sampler"
)

// qualityReport is the JSON of order show --quality.
type qualityReport struct {
	sampler.Quality
	HomeReads *float64 `json:"home_reads,omitempty"` // share of samples, with nodes
}

// homeSteps is how many batches the share of home reads is measured over.
const homeSteps = 16

func (a *app) showQuality(e *sampler.Epoch, world int) error {
	r := qualityReport{e.Quality(), homeReads(e, world)}
	if a.json {
		return a.printJSON(r)
	}
	var rows bytes.Buffer
	fmt.Fprintf(&rows, "blocks\t%d\n", r.Blocks)
	fmt.Fprintf(&rows, "windows\t%d, each of %d blocks with %d samples\n", r.Windows, r.WindowBlocks, r.WindowSamples)
	fmt.Fprintf(&rows, "distinct blocks in a batch\t%.1f of %d samples (%.1f in a full shuffle)\n", r.DistinctBlocks, e.Global, r.FullShuffle)
	fmt.Fprintf(&rows, "neighbours of one block\t%.4f of all positions\n", r.Neighbours)
	if r.HomeReads != nil {
		fmt.Fprintf(&rows, "read on the home node\t%.1f %% of samples\n", 100**r.HomeReads)
	}
	return a.printTable(rows.Bytes())
}

// homeReads is the share of samples that are read on the home node of their block,
// nil where blocks have none.
func homeReads(e *sampler.Epoch, world int) *float64 {
	if e.Nodes == 0 || e.Steps() == 0 {
		return nil
	}
	var home, all int64
	for step := range min(homeSteps, e.Steps()) {
		home += e.HomeReads(step, world)
		all += e.Span(step).Len()
	}
	share := float64(home) / float64(all)
	return &share
}
