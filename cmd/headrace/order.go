package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// orderFlags say which stream is meant, and which part of it.
type orderFlags struct {
	stream    sampler.Stream
	tail      string
	noShuffle bool
	blocks    string // file
	epoch     int64
	world     int
}

func (a *app) order() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Show and verify the order of samples",
		Long: `Which samples are in a batch, where a sample comes, and what the digest of an epoch
must be: computed from the numbers alone, without the data and without the run.

The order follows from --fingerprint (of the loader), --n, --seed and --epoch;
--global cuts it into batches and --world into the ranks' parts.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.orderShow(), a.orderWhere(), a.orderVerify())
	return cmd
}

// add defines the flags that the three commands share.
func (f *orderFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&f.stream.N, "n", 0, "samples of an epoch")
	flags.Uint64Var(&f.stream.Seed, "seed", 0, "seed of the loader")
	flags.StringVar(&f.stream.Fingerprint, "fingerprint", "", "fingerprint of the loader's source")
	flags.Int64Var(&f.epoch, "epoch", 0, "epoch")
	flags.Int64Var(&f.stream.Global, "global", 0, "samples of a batch, over all ranks")
	flags.StringVar(&f.tail, "tail", "short", "what becomes of the last samples: short, drop or mask")
	flags.Int64Var(&f.stream.Block, "block", 0, "samples of a block, for a shuffle by blocks and windows")
	flags.StringVar(&f.blocks, "blocks", "", "file with the samples of each block, one number a line, where they differ")
	flags.IntVar(&f.stream.Window, "window", 0, fmt.Sprintf("blocks of a window (default %d with --block or --blocks)", sampler.DefaultWindow))
	flags.BoolVar(&f.noShuffle, "no-shuffle", false, "samples come in the order of the source")
	choices(cmd, "tail", "short", "drop", "mask")
}

// addRanks defines the flags of who reads what.
func (f *orderFlags) addRanks(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.world, "world", 1, "number of ranks")
	flags.IntVar(&f.stream.Replicas, "replicas", 1, "ranks in a row that get the same samples")
	flags.IntVar(&f.stream.Nodes, "nodes", 0, "nodes that the ranks lie on: samples go to the home node of their block")
}

// read checks the flags. Those that are named must have been given.
func (f *orderFlags) read(cmd *cobra.Command, needed ...string) (err error) {
	for _, name := range needed {
		if !cmd.Flags().Changed(name) {
			return usagef("--%s is missing", name)
		}
	}
	s := &f.stream
	if s.Tail, err = sampler.ParseTail(f.tail); err != nil {
		return usageError{err}
	}
	s.Shuffle = !f.noShuffle
	if f.blocks != "" {
		if s.Blocks, err = readBlocks(f.blocks); err != nil {
			return err
		}
	}
	if (s.Block > 0 || s.Blocks != nil) && !cmd.Flags().Changed("window") {
		s.Window = sampler.DefaultWindow
	}
	if f.epoch < 0 {
		return usagef("--epoch is %d: at least 0", f.epoch)
	}
	if !cmd.Flags().Changed("global") {
		s.Global = max(1, s.N)
	}
	if err := s.Validate(); err != nil {
		return usageError{err}
	}
	if cmd.Flags().Lookup("world") == nil {
		return nil
	}
	if err := s.CheckWorld(f.world); err != nil {
		return usageError{err}
	}
	return nil
}

// readBlocks reads the numbers of samples of blocks, and no more of them than a
// stream takes.
func readBlocks(name string) (*sampler.Blocks, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "--blocks: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	var sizes []int64
	lines := bufio.NewScanner(file)
	for lines.Scan() && len(sizes) <= sampler.MaxBlocks {
		n, err := strconv.ParseInt(string(bytes.TrimSpace(lines.Bytes())), 10, 64)
		if err != nil {
			return nil, usagef("--blocks %s: line %d: %.20q is not a number", name, len(sizes)+1, lines.Bytes())
		}
		sizes = append(sizes, n)
	}
	if err := lines.Err(); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "--blocks %s: line %d: %w", name, len(sizes)+1, err)
	}
	blocks, err := sampler.NewBlocks(sizes)
	if err != nil {
		return nil, usageError{fmt.Errorf("--blocks %s: %w", name, err)}
	}
	return blocks, nil
}
