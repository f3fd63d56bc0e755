package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/demo"
	"github.com/headrace/headrace/nd"
)

func (a *app) demo() *cobra.Command {
	var dir string
	var crops int64
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Write sample data and stream an epoch of random crops",
		Long: `Write a small data set of several codecs and stream one epoch of random crops over
it, as a trainer would. The data go to a temporary folder, or with --dir stay where
you want them.`,
		Example: "  headrace demo\n  headrace demo --dir data/demo",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if crops < 1 {
				return usagef("--crops is %d: at least 1", crops)
			}
			root := dir
			if root == "" {
				if root, err = os.MkdirTemp("", "headrace-demo-"); err != nil {
					return nd.Errorf(nd.ErrIO, "make a folder for the data: %w", err)
				}
				defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
			}
			return a.runDemo(cmd.Context(), root, dir != "", crops)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for the data (default: a temporary one)")
	cmd.Flags().Int64Var(&crops, "crops", 1024, "crops in the epoch")
	return cmd
}

func (a *app) runDemo(ctx context.Context, root string, kept bool, crops int64) error {
	bar := a.progress()
	defer bar.end()
	r, err := demo.Run(ctx, root, crops, func(phase string, bytes bool, done, total int64) {
		bar.show(phase, unit(bytes), done, total)
	})
	if err != nil {
		return err
	}
	bar.end()
	if r.Missing > 0 {
		return nd.Errorf(nd.ErrBug, "%d of %d crops never came", r.Missing, crops)
	}
	if a.json {
		return a.printJSON(r)
	}
	return a.printDemo(r, kept)
}

func (a *app) printDemo(r *demo.Result, kept bool) error {
	next := "Keep the data with: headrace demo --dir data/demo"
	if kept {
		next = "Look at it with: headrace info " + r.Arrays[0]
	}
	_, err := fmt.Fprintf(a.stdout, `%d random crops of %d arrays in %d batches, each crop once
%.2f s: %.0f samples/s, %.2f GB/s of f32

%s
%s
`, r.Samples, len(r.Arrays), r.Batches, r.WallS, r.SamplesPerS, r.GBPerS, r.Stats, next)
	return err
}
