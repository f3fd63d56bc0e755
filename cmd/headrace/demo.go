package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/demo"
	"github.com/headrace/headrace/launcher"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

func (a *app) demo() *cobra.Command {
	var dir string
	var crops int64
	var ranks int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Write sample data and stream an epoch of random crops on two ranks",
		Long: `Write a small data set of several codecs, start two ranks as "headrace launch" does,
and stream one epoch of random crops over it, as a trainer would. What all ranks
together got is compared with what the plan says: the digest tells that each crop
came once. The data go to a temporary folder, or with --dir stay where you want them.`,
		Example: "  headrace demo\n  headrace demo --dir data/demo --ranks 4",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if crops < 1 {
				return usagef("--crops is %d: at least 1", crops)
			}
			if ranks < 1 || ranks > 64 {
				return usagef("--ranks is %d: 1 to 64", ranks)
			}
			work, err := os.MkdirTemp("", "headrace-demo-")
			if err != nil {
				return nd.Errorf(nd.ErrIO, "make a folder for the data: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
			root := dir
			if root == "" {
				root = filepath.Join(work, "data")
			}
			return a.runDemo(cmd.Context(), root, work, dir != "", crops, ranks)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for the data (default: a temporary one)")
	cmd.Flags().Int64Var(&crops, "crops", 1024, "crops in the epoch")
	cmd.Flags().IntVar(&ranks, "ranks", 2, "processes that share the epoch")
	cmd.AddCommand(demoRank())
	return cmd
}

// demoRank is what the demo starts for each rank: it leaves what it has to tell in a
// file of its own below OUT.
func demoRank() *cobra.Command {
	return &cobra.Command{
		Use:    "rank DIR CROPS OUT",
		Hidden: true,
		Args:   exactly("DIR", "CROPS", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			crops, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usagef("CROPS is %q, no number", args[1])
			}
			id, _, err := rank.Detect(os.LookupEnv)
			if err != nil {
				return nd.Errorf(nd.ErrConfig, "%w", err)
			}
			part, err := demo.Rank(cmd.Context(), id, args[0], crops)
			if err != nil {
				return err
			}
			doc, err := json.Marshal(part)
			if err != nil {
				return nd.Errorf(nd.ErrBug, "result of rank %d: %w", id.Rank, err)
			}
			return os.WriteFile(partOf(args[2], id.Rank), doc, 0o600)
		},
	}
}

func partOf(folder string, rank int) string {
	return filepath.Join(folder, fmt.Sprintf("rank-%d.json", rank))
}

func (a *app) runDemo(ctx context.Context, root, work string, kept bool, crops int64, ranks int) error {
	bar := a.progress()
	defer bar.end()
	err := demo.Prepare(ctx, root, func(phase string, bytes bool, done, total int64) {
		bar.show(phase, unit(bytes), done, total)
	})
	if err != nil {
		return err
	}
	bar.end()
	if err := launchDemo(ctx, root, work, crops, ranks); err != nil {
		return err
	}
	parts := make([]demo.Part, ranks)
	for i := range parts {
		doc, err := os.ReadFile(partOf(work, i))
		if err == nil {
			err = json.Unmarshal(doc, &parts[i])
		}
		if err != nil {
			return nd.Errorf(nd.ErrBug, "rank %d left no result: %w", i, err)
		}
	}
	r, err := demo.Sum(root, parts)
	if err != nil {
		return err
	}
	if !r.Exact {
		return nd.Errorf(nd.ErrBug, "%d of %d crops never came, digest %s, want %s", r.Missing, crops, r.Digest, parts[0].Expected)
	}
	if a.json {
		return a.printJSON(r)
	}
	return a.printDemo(r, kept)
}

// launchDemo starts the ranks and waits for them. What the environment says of another
// job does not count.
func launchDemo(ctx context.Context, root, work string, crops int64, ranks int) error {
	self, err := os.Executable()
	if err != nil {
		return nd.Errorf(nd.ErrIO, "find this program: %w", err)
	}
	spec, err := launcher.Parse([]string{
		"--standalone", "--nproc-per-node=" + strconv.Itoa(ranks), "--no-python",
		self, "demo", "rank", root, strconv.FormatInt(crops, 10), work,
	}, func(string) (string, bool) { return "", false })
	if err != nil {
		return err
	}
	spec.Env, spec.Stdout, spec.Stderr = os.Environ(), os.Stderr, os.Stderr
	result, err := launcher.Run(ctx, spec)
	if err != nil {
		_, _ = io.WriteString(os.Stderr, result.Report()) // the ranks have said what is wrong
	}
	return err
}

func (a *app) printDemo(r *demo.Result, kept bool) error {
	next := "Keep the data with: headrace demo --dir data/demo"
	if kept {
		next = "Look at it with: headrace info " + r.Arrays[0]
	}
	_, err := fmt.Fprintf(a.stdout, `%d random crops of %d arrays in %d batches, each crop once
%d ranks, %.2f s: %.0f samples/s, %.2f GB/s of f32
coverage digest %s, as the plan says

rank 0:
%s
%s
`, r.Samples, len(r.Arrays), r.Batches, r.Ranks, r.WallS, r.SamplesPerS, r.GBPerS, r.Digest, r.Stats, next)
	return err
}
