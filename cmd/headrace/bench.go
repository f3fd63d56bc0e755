package main

import (
	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/benchmark"
	"github.com/headrace/headrace/internal/scenario"
)

func (a *app) bench() *cobra.Command {
	var o benchmark.Options
	cmd := &cobra.Command{
		Use:   "bench SCENARIO.json",
		Short: "Run a scenario and measure it",
		Long: `Run a scenario: write its data where it is missing, warm up, take the timed
batches, then measure the bare decoder on the same chunks. Scenario files of
damacy's benchmark are accepted; the crops are the same, sample by sample.`,
		Example: "  headrace bench bench/scenarios/smoke.json --check\n  headrace bench bench/scenarios/default.json --reuse none --json",
		Args:    exactly("SCENARIO.json"),

		ValidArgsFunction: scenarios,

		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyPositive(cmd, "batches", "workers", "readers", "lookahead"); err != nil {
				return err
			}
			s, err := scenario.Load(args[0])
			if err != nil {
				return err
			}
			bar := a.progress()
			defer bar.end()
			o.Report = func(phase string, done, total int64) {
				bar.show(phase, phase == benchmark.PhaseWrite, done, total)
			}
			r, err := benchmark.Run(cmd.Context(), s, o)
			if err != nil {
				return err
			}
			bar.end()
			if a.json {
				return a.printJSON(r)
			}
			return r.Print(a.stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "", "folder of the data set (default: the scenario's store_root)")
	f.StringVar(&o.Device, "device", "cpu", "cpu, cuda:N, GPU-<uuid> or MIG-<uuid>")
	f.StringVar(&o.Reuse, "reuse", "", "none, batch, window or cache: how long a decoded chunk is kept (default window)")
	f.StringVar(&o.Decoder, "decoder", "", "who decodes zstd on a GPU: nvcomp or nvcomp=PATH, to compare with (default: kernels of our own)")
	f.StringVar(&o.Reader, "reader", "", "how files are read: ring, direct, uring, on a GPU mapped (default: mapped where it can be)")
	bytesVar(cmd, &o.CompressedBytes, "compressed-cache", "bytes of compressed chunks kept on a GPU")
	bytesVar(cmd, &o.DeviceBytes, "device-bytes", "cap of the engine's memory on a GPU (default: the scenario's)")
	bytesVar(cmd, &o.MappedBytes, "mapped-bytes", "cap of the page cache that is registered with a GPU")
	bytesVar(cmd, &o.HostBytes, "host-bytes", "cap of the engine's host memory")
	bytesVar(cmd, &o.DecodedBytes, "decoded-bytes", "cap of the decoded chunks that are kept")
	f.BoolVar(&o.Check, "check", false, "compare every byte of the timed batches with a plain read")
	f.IntVar(&o.Batches, "batches", 0, "timed batches (default: the scenario's)")
	f.IntVar(&o.Workers, "workers", 0, "goroutines that decode (default: the cores)")
	f.IntVar(&o.Readers, "readers", 0, "goroutines that read (default: the scenario's n_io_threads)")
	f.IntVar(&o.Lookahead, "lookahead", 0, "samples planned ahead (default: the scenario's)")
	choices(cmd, "device", "cpu", "cuda:0")
	choices(cmd, "reuse", "none", "batch", "window", "cache")
	choices(cmd, "reader", "ring", "direct", "uring", "mapped")
	choices(cmd, "decoder", "nvcomp")
	return cmd
}

// onlyPositive refuses 0 and less for flags that were given.
func onlyPositive(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if n, err := cmd.Flags().GetInt(name); err != nil || n < 1 {
			return usagef("--%s is %d: at least 1", name, n)
		}
	}
	return nil
}
