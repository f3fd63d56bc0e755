package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/probe"
)

func (a *app) probe() *cobra.Command {
	var o probe.Options
	var crop string
	cmd := &cobra.Command{
		Use:   "probe URI",
		Short: "Predict what decoding an array costs, and advise codecs",
		Long: `Read a random sample of an array's chunks, the same one for the same seed, and say
how they are compressed, how fast this machine's cores decode them, how fast a GPU
does (measured where there is one, else predicted from measured rates), how much
more than itself a crop reads and decodes, and what would bind. Then write the sample
with other codecs, in memory, and say which of them is faster or smaller. Rates of
batches are those of crops at random places, with no chunk used twice.

A codec is one of none, lz4, zstd, gzip, zlib and blosc- with lz4, lz4hc, zstd, zlib or
blosclz, which shuffles bytes unless -bitshuffle or -noshuffle follows. A level follows
after a colon, up to 22 of zstd and 9 of others; shuffle+ before the others puts the bytes of the
elements apart.

Chunks that cannot be decoded are counted and the first one is named; they have no part in any
figure. If none can be decoded, that is an error, with exit code 1. Calls on a GPU take no more
than --gpu-time together: one that began is not cut off, but none begins that would take longer.`,
		Example: `  headrace probe data/smoke/z000/scale0/image
  headrace probe image.zarr --level 1 --crop 64,128,128 --samples 256
  headrace probe data/smoke/z000/scale0/image --codecs zstd:1,shuffle+zstd:3,blosc-lz4 --json
  headrace probe data/smoke/z000/scale0/image --device cpu --codecs ""`,
		Args: exactly("URI"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := onlyPositive(cmd, "samples"); err != nil {
				return err
			}
			if o.Samples > probe.MaxSamples {
				return usagef("--samples is %d: at most %d", o.Samples, probe.MaxSamples)
			}
			if o.GPUTime <= 0 {
				return usagef("--gpu-time is %v: must be positive", o.GPUTime)
			}
			if o.Crop, err = parseExtents(crop); err != nil {
				return err
			}
			o.URI, o.OnlyStored = args[0], cmd.Flags().Changed("codecs") && len(o.Codecs) == 0
			bar := a.progress()
			defer bar.end()
			o.Report = func(phase string, done, total int64) { bar.show(phase, inItems, done, total) }
			r, err := probe.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			bar.end()
			if a.json {
				return a.printJSON(r)
			}
			return a.printProbe(r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Device, "device", "", "cuda:N, GPU-<uuid> or MIG-<uuid> to measure on; cpu for batches in the host's memory (default: cuda:0 where there is one)")
	f.StringVar(&o.Level, "level", "", "level of an OME-Zarr image, by number or path (default: the finest)")
	f.IntVar(&o.Samples, "samples", 64, "chunks to read; fewer where they hold more than 128 MiB stored")
	f.DurationVar(&o.GPUTime, "gpu-time", probe.DefaultGPUTime, "how long decoders are measured on a GPU; what is left then is predicted, or counts with the host's rate")
	f.Uint64Var(&o.Seed, "seed", 0, "which chunks are drawn")
	f.StringVar(&crop, "crop", "", "extents of a crop, as 64,128,128 (default: 128 along the last three axes, 1024 along two)")
	f.StringSliceVar(&o.Codecs, "codecs", nil, `codecs to try, as zstd:1,blosc-lz4; "" for none (default: a dozen)`)
	choices(cmd, "device", "cpu", "cuda:0")
	choices(cmd, "codecs", probe.CodecNames()...)
	return cmd
}

// parseExtents reads "64,128,128".
func parseExtents(text string) (list []int64, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || n < 1 {
			return nil, usagef("--crop %q: %q is not an extent", text, part)
		}
		list = append(list, n)
	}
	return list, nil
}
