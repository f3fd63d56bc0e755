package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

func (a *app) orderShow() *cobra.Command {
	var f orderFlags
	var step int64
	var rank int
	var quality bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show which samples are in a batch",
		Long: `Show the samples of a batch and which rank gets which. Without --step all batches of
the epoch are shown, with --rank only that rank's part. With --json each batch is one
line. With --quality it shows instead how well the order shuffles and what it reads.`,
		Example: "  headrace order show --n 1000 --global 32 --world 4 --step 0\n  headrace order show --n 1000 --global 32 --world 4 --rank 1 --epoch 2 --json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := f.read(cmd, "n", "global"); err != nil {
				return err
			}
			if quality {
				return a.showQuality(f.stream.Epoch(f.epoch), f.world)
			}
			steps, ranks := nd.Span{Stop: f.stream.Steps()}, nd.Span{Stop: int64(f.world)}
			if err := only(cmd, "step", step, &steps, "the epoch has %d"); err != nil {
				return err
			}
			if err := only(cmd, "rank", int64(rank), &ranks, "the world has %d"); err != nil {
				return err
			}
			out := bufio.NewWriter(a.stdout)
			defer func() { err = errors.Join(err, out.Flush()) }()
			show := batchShow{out: out, epoch: f.stream.Epoch(f.epoch), world: f.world, ranks: ranks, whole: !cmd.Flags().Changed("rank")}
			write := show.text
			if a.json {
				write = show.json
			}
			for step := steps.Start; step < steps.Stop; step++ {
				if err := errors.Join(cmd.Context().Err(), write(cmd.Context(), step)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.add(cmd)
	f.addRanks(cmd)
	cmd.Flags().Int64Var(&step, "step", 0, "batch of the epoch (default: all)")
	cmd.Flags().BoolVar(&quality, "quality", false, "show figures of the shuffle instead of samples")
	cmd.Flags().IntVar(&rank, "rank", 0, "show the part of one rank (default: all)")
	return cmd
}

// only cuts a range down to the one that a flag names, if it was given.
func only(cmd *cobra.Command, flag string, value int64, of *nd.Span, there string) error {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	if value < 0 || value >= of.Stop {
		return usagef("--%s is %d: "+there+", counted from 0", flag, value, of.Stop)
	}
	*of = nd.Span{Start: value, Stop: value + 1}
	return nil
}

// batchShow writes batches, whole or one rank's part.
type batchShow struct {
	out   *bufio.Writer
	epoch *sampler.Epoch
	world int
	ranks nd.Span
	whole bool // all ranks
}

// rankPart is one rank's part of a batch in the JSON: first and count where its
// positions are in a row.
type rankPart struct {
	Rank      int     `json:"rank"`
	First     *int64  `json:"first,omitempty"`
	Count     *int64  `json:"count,omitempty"`
	Positions []int64 `json:"positions,omitempty"`
}

// spans is the positions of a rank. A batch may be larger than memory: without
// nodes they are not listed.
func (b *batchShow) spans(step int64, rank int) []nd.Span {
	if b.epoch.Nodes > 0 {
		return sampler.Spans(b.epoch.Positions(step, rank, b.world))
	}
	if slice := b.epoch.Slice(step, rank, b.world); slice.Len() > 0 {
		return []nd.Span{slice}
	}
	return nil
}

func (b *batchShow) part(step int64, rank int, spans []nd.Span) rankPart {
	switch len(spans) {
	case 0:
		return rankPart{Rank: rank, First: new(b.epoch.Slice(step, rank, b.world).Start), Count: new(int64(0))}
	case 1:
		return rankPart{Rank: rank, First: &spans[0].Start, Count: new(spans[0].Len())}
	}
	part := rankPart{Rank: rank}
	for _, s := range spans {
		for p := s.Start; p < s.Stop; p++ {
			part.Positions = append(part.Positions, p)
		}
	}
	return part
}

// json writes a batch as one line, sample by sample: a batch may be large.
func (b *batchShow) json(ctx context.Context, step int64) error {
	span := b.epoch.Span(step)
	var ranks []rankPart
	var spans []nd.Span
	for rank := b.ranks.Start; rank < b.ranks.Stop; rank++ {
		spans = b.spans(step, int(rank))
		ranks = append(ranks, b.part(step, int(rank), spans))
	}
	first := span.Start
	switch {
	case b.whole:
		spans = []nd.Span{span}
	case len(spans) > 0:
		first = spans[0].Start
	}
	_, _ = fmt.Fprintf(b.out, `{"epoch":%d,"step":%d,"first":%d,"samples":[`, b.epoch.Number, step, first)
	if err := b.samples(ctx, spans); err != nil {
		return err
	}
	doc, err := json.Marshal(ranks)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, `],"ranks":%s}`+"\n", doc)
	return err
}

// samples writes the samples at positions, until the writer fails or the context
// ends.
func (b *batchShow) samples(ctx context.Context, spans []nd.Span) error {
	const atOnce = 4096
	between := ""
	for _, s := range spans {
		for ; s.Start < s.Stop; s.Start += atOnce {
			for _, sample := range b.epoch.Order().Samples(nd.Span{Start: s.Start, Stop: s.Start + min(atOnce, s.Len())}) {
				_, _ = b.out.WriteString(between)
				_, _ = b.out.Write(strconv.AppendInt(b.out.AvailableBuffer(), sample, 10))
				between = ","
			}
			_, err := b.out.WriteString("") // a writer that failed keeps its error
			if err = errors.Join(ctx.Err(), err); err != nil {
				return err
			}
		}
	}
	return nil
}

// shown is the most samples of a rank that text shows.
const shown = 12

// text writes a batch for people: a line a rank.
func (b *batchShow) text(_ context.Context, step int64) error {
	span := b.epoch.Span(step)
	_, _ = fmt.Fprintf(b.out, "epoch %d  step %d  positions %d:%d\n", b.epoch.Number, step, span.Start, span.Stop)
	var rows bytes.Buffer
	for rank := b.ranks.Start; rank < b.ranks.Stop; rank++ {
		spans := b.spans(step, int(rank))
		fmt.Fprintf(&rows, "  rank %d\t%s\t", rank, spansText(spans))
		left := int64(shown)
		for _, s := range spans {
			for _, sample := range b.epoch.Order().Samples(nd.Span{Start: s.Start, Stop: s.Start + min(left, s.Len())}) {
				fmt.Fprintf(&rows, " %d", sample)
				left--
			}
		}
		if count := positions(spans); count > shown {
			fmt.Fprintf(&rows, " … %d more", count-shown)
		}
		rows.WriteByte('\n')
	}
	return table(b.out, rows.Bytes())
}

// spansText is positions as "0:4", or where they are not in a row as their number
// and range.
func spansText(spans []nd.Span) string {
	switch len(spans) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%d:%d", spans[0].Start, spans[0].Stop)
	}
	return fmt.Sprintf("%d in %d:%d", positions(spans), spans[0].Start, spans[len(spans)-1].Stop)
}

// positions is the number of positions in spans.
func positions(spans []nd.Span) (n int64) {
	for _, s := range spans {
		n += s.Len()
	}
	return n
}
