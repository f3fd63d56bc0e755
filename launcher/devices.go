package launcher

import (
	"fmt"
	"os"
	"strconv"

	"github.com/headrace/headrace/launcher/nvml"
	"github.com/headrace/headrace/launcher/topology"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// devices are the GPUs of the local ranks, nil where there is none.
func (s *Spec) devices() ([]rank.GPUInfo, error) {
	gpus, _, _ := nvml.GPUs(os.DirFS("/")) // without NVML the driver's files have to do
	have := make([]rank.GPUInfo, len(gpus))
	for i, g := range gpus {
		have[i] = rank.GPUInfo{UUID: g.UUID, PCI: g.PCI, Instances: g.Instances}
	}
	visible, err := rank.VisibleGPUs(s.lookup, have)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "%w", err)
	}
	local, err := rank.LocalGPUs(visible, s.Workers)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "%w", err)
	}
	return local, nil
}

// bindings says where each local rank runs; nil where nothing was asked for.
func (s *Spec) bindings() ([]topology.Binding, error) {
	mode, err := topology.ParseMode(s.NumaBinding)
	if err != nil || mode == topology.None {
		return nil, err
	}
	machine, err := topology.Read(os.DirFS("/"))
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "--numa-binding: %w", err)
	}
	gpus, err := s.devices()
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, g := range gpus {
		addresses = append(addresses, g.PCI)
	}
	bindings, err := machine.Bindings(mode, s.Workers, addresses)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "--numa-binding: %w", err)
	}
	return bindings, nil
}

// bound puts a binding around the fork of a program.
func (p *program) bound(b topology.Binding) {
	undo := func() error { return nil }
	p.beforeFork = func() error {
		u, err := b.Apply()
		if err == nil {
			undo = u
		}
		return err
	}
	p.afterFork = func() error { return undo() }
}

// engineDevice is the device of a local rank's companion.
func engineDevice(gpus []rank.GPUInfo, local int, alone bool) string {
	switch {
	case len(gpus) == 0:
		return "cpu"
	case alone || len(gpus) > 1 && gpus[0].UUID == gpus[len(gpus)-1].UUID && gpus[0].PCI == gpus[len(gpus)-1].PCI:
		return "cuda:0" // its only one, or the one that all ranks share
	}
	return "cuda:" + strconv.Itoa(local)
}

// describeBindings is one line for each rank.
func describeBindings(list []topology.Binding) (lines []string) {
	for local, b := range list {
		lines = append(lines, fmt.Sprintf("local rank %d: %s", local, b))
	}
	return lines
}
