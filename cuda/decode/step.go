package decode

import (
	"math"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// step is a kernel on a device, and how it is launched.
type step struct {
	kernel cuda.Function
	block  int
	shared int
	each   int // blocks that a multiprocessor holds at once
}

// findStep finds a kernel in a module made of kernels.Images.
func findStep(device *cuda.Device, module *cuda.Module, name string, block, shared int) (step, error) {
	f, err := module.Function(name)
	if err != nil {
		return step{}, err
	}
	if shared > 0 {
		if err := f.AllowShared(shared); err != nil {
			return step{}, err
		}
	}
	each, err := f.BlocksPerSM(block, shared)
	if err != nil {
		return step{}, err
	}
	if each < 1 {
		return step{}, nd.Errorf(nd.ErrDevice, "kernel %s does not fit a multiprocessor of %s", name, device.Info().Name)
	}
	return step{f, block, shared, each}, nil
}

// resident is how many blocks run at once on so many multiprocessors, 0 being all of the
// device.
func (s step) resident(device *cuda.Device, sms float64) int {
	all := float64(device.Info().SMs)
	if sms > 0 {
		all = min(all, sms)
	}
	return max(1, int(all*float64(s.each)))
}

// forItems is the grid for n items. Where no one else is to have a part of the device, that is a
// block an item: it hands them out better than the kernel's own loop does.
func (s step) forItems(device *cuda.Device, sms float64, n int) int {
	most := math.MaxInt32
	if sms > 0 {
		most = s.resident(device, sms)
	}
	return min(n, most)
}

func (s step) launch(commands *cuda.Commands, stream *cuda.Stream, grid int, params []byte) {
	commands.Launch(stream, s.kernel, grid, s.block, s.shared, params)
}
