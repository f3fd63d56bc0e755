package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

func (a *app) orderWhere() *cobra.Command {
	var f orderFlags
	var sample int64
	cmd := &cobra.Command{
		Use:   "where",
		Short: "Find the batch and the rank of a sample",
		Long: `Find where a sample comes in an epoch: its position, its batch and the rank that gets
it (with --replicas the first of them). Batch and rank are -1 for a sample that
--tail drop leaves out.`,
		Example: "  headrace order where --n 1000 --global 32 --world 4 --sample 17",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.read(cmd, "n", "global", "sample"); err != nil {
				return err
			}
			if sample < 0 || sample >= f.stream.N {
				return usagef("--sample is %d: an epoch of %d has samples 0 to %d", sample, f.stream.N, f.stream.N-1)
			}
			at := f.stream.Where(f.epoch, sample, f.world)
			if a.json {
				return a.printJSON(struct {
					Sample   int64 `json:"sample"`
					Epoch    int64 `json:"epoch"`
					Position int64 `json:"position"`
					Step     int64 `json:"step"`
					Rank     int   `json:"rank"`
				}{sample, f.epoch, at.Position, at.Step, at.Rank})
			}
			place := fmt.Sprintf("step %d, rank %d", at.Step, at.Rank)
			if at.Step < 0 {
				place = "left out by --tail drop"
			}
			_, err := fmt.Fprintf(a.stdout, "sample %d  epoch %d  position %d  %s\n", sample, f.epoch, at.Position, place)
			return err
		},
	}
	f.add(cmd)
	f.addRanks(cmd)
	cmd.Flags().Int64Var(&sample, "sample", 0, "sample to find")
	return cmd
}

func (a *app) orderVerify() *cobra.Command {
	var f orderFlags
	var digest string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the digest of an epoch",
		Long: `Recompute the coverage digest that an epoch must have, on all cores. With --digest it
is compared with what a run reported, and the exit code is 1 if it differs: then a
sample was lost, came twice, or came at the place of another.`,
		Example: "  headrace order verify --n 1000000 --seed 3 --epoch 2\n  headrace order verify --n 1000 --global 32 --tail drop --digest 0123456789abcdef0123456789abcdef",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			needed := []string{"n"}
			if f.tail == sampler.TailDrop.String() {
				needed = append(needed, "global") // it says how many are left out
			}
			if err := f.read(cmd, needed...); err != nil {
				return err
			}
			reported, err := sampler.ParseDigest(digest, 0)
			if err != nil && cmd.Flags().Changed("digest") {
				return usageError{err}
			}
			bar := a.progress()
			defer bar.end()
			got, err := order.Verify(cmd.Context(), f.stream.Epoch(f.epoch), runtime.GOMAXPROCS(0), func(done, total int64) {
				bar.show("verify", inItems, done, total)
			})
			if err != nil {
				return err
			}
			bar.end()
			if err := a.printDigest(f.epoch, got); err != nil {
				return err
			}
			if cmd.Flags().Changed("digest") && got.Lanes != reported.Lanes {
				return nd.Errorf(nd.ErrCorrupt, "the run reported digest %s, the plan gives %s over %d samples: a sample was lost, repeated or misplaced, or the run had other numbers", digest, got, got.Count)
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&digest, "digest", "", "what a run reported, to compare with")
	return cmd
}

func (a *app) printDigest(epoch int64, d sampler.Digest) error {
	if a.json {
		return a.printJSON(struct {
			Epoch  int64  `json:"epoch"`
			Count  int64  `json:"count"`
			Digest string `json:"digest"`
		}{epoch, d.Count, d.String()})
	}
	_, err := fmt.Fprintf(a.stdout, "epoch %d  %d samples  digest %s\n", epoch, d.Count, d)
	return err
}
