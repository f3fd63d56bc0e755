package pipeline

import (
	"math"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// kernel is one that is launched with a block for each item.
type kernel struct {
	function cuda.Function
	threads  int // of a block
	blocks   int // most of a launch
}

// launch enqueues the kernel for n items; s.params are its parameters.
func (s *stage) launch(stream *cuda.Stream, k *kernel, n int) {
	s.commands.Launch(stream, k.function, min(n, k.blocks), k.threads, 0, s.params)
}

// loadKernels finds the kernels and how many blocks of each run at most.
func (d *device) loadKernels() (err error) {
	if d.module, err = d.gpu.LoadModule(kernels.Images()); err != nil {
		return err
	}
	for _, k := range []struct {
		name    string
		threads int
		kernel  *kernel
	}{
		{kernels.Assemble, kernels.AssembleBlock, &d.kernel.assemble},
		{kernels.Decode, kernels.DecodeBlock, &d.kernel.decode},
		{kernels.Inflate, kernels.InflateBlock, &d.kernel.inflate},
		{kernels.Crc32c, kernels.Crc32cBlock, &d.kernel.crc32c},
		{kernels.Gather, kernels.GatherBlock, &d.kernel.gather},
	} {
		f, err := d.module.Function(k.name)
		if err != nil {
			return err
		}
		*k.kernel = kernel{function: f, threads: k.threads}
		if k.kernel.blocks, err = d.blocks(f, k.threads); err != nil {
			return err
		}
	}
	d.gathers, d.kernel.gather.blocks = mustGather(d.gpu.Info()), min(d.kernel.gather.blocks, gatherBlocks)
	return nil
}

// blocks is the most blocks of a launch: where the config caps the multiprocessors, the part of a
// wave in flight of those that run at once on so many; else one for each item, which the device
// hands out better than the kernels' own loop would (bench/results/kernels-20261130-174550.json:
// to f32, 1.13 TB/s with a block an item, 0.85 with as many as run at once).
func (d *device) blocks(f cuda.Function, threads int) (int, error) {
	if d.p.cfg.SMs == 0 {
		return math.MaxInt32, nil
	}
	each, err := f.BlocksPerSM(threads, 0)
	return max(1, min(d.p.cfg.SMs, d.gpu.Info().SMs)*each/deviceWaves), err
}
