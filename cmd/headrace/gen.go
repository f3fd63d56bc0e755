package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/dataset"
	"github.com/headrace/headrace/internal/scenario"
)

func (a *app) gen() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "gen SCENARIO.json",
		Short: "Write the data set of a scenario",
		Long: `Write the data set that a scenario describes, on all cores. Arrays that are
complete are kept, one that was interrupted is continued. The same seed gives the
same values, with the same encoder the same bytes.`,
		Example: "  headrace gen bench/scenarios/smoke.json\n  headrace gen bench/scenarios/smoke.json --out /data/smoke",
		Args:    exactly("SCENARIO.json"),

		ValidArgsFunction: scenarios,

		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := scenario.Load(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				out = s.Dataset.StoreRoot
			}
			arrays, err := dataset.FromScenario(&s.Dataset)
			if err != nil {
				return err
			}
			bar := a.progress()
			defer bar.end()
			err = dataset.Write(cmd.Context(), out, arrays, func(done, total int64) { bar.show("write data", inBytes, done, total) })
			if err != nil {
				return err
			}
			bar.end()
			return a.printWritten(out, arrays)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the data set (default: the scenario's store_root)")
	return cmd
}

// written is what gen and demo say of a data set.
type written struct {
	Root   string   `json:"root"`
	Arrays []string `json:"arrays"`
	Bytes  int64    `json:"bytes"` // decoded
}

func (a *app) printWritten(root string, arrays []dataset.Array) error {
	w := written{Root: root}
	for i := range arrays {
		w.Arrays = append(w.Arrays, arrays[i].Path)
		w.Bytes += arrays[i].Bytes()
	}
	if a.json {
		return a.printJSON(w)
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %d arrays, %.1f MB decoded\n", root, len(arrays), float64(w.Bytes)/1e6)
	return err
}
