package rank

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPUInfo is one GPU of the node, or what a process sees as one.
type GPUInfo struct {
	UUID      string   // GPU-…, or MIG-… of an instance that was chosen
	PCI       string   // address, as sysfs writes it: 0000:3b:00.0
	Instances []string // UUIDs of its MIG instances, MIG-…
}

// VisibleGPUs are the GPUs that a process with this environment sees, in the order
// of its device numbers, out of all those of the node, which are in the order of
// their PCI addresses. CUDA_VISIBLE_DEVICES holds numbers, UUIDs or beginnings of
// them (GPU-8932f937), and MIG instances (MIG-…, or MIG-GPU-…/3/0 of old drivers);
// where it is not set all are visible, where it is empty or begins with -1 none.
// As in CUDA the list ends at a number that there is not; a UUID that there is
// not, or a device named twice, is an *Error.
//
// Numbers are taken to follow PCI addresses. CUDA's own order is by speed, which is
// the same order where all GPUs are of one kind.
func VisibleGPUs(lookup func(string) (string, bool), have []GPUInfo) ([]GPUInfo, error) {
	list, ok := lookup(visibleVar)
	if !ok {
		return have, nil
	}
	var visible []GPUInfo
	for _, entry := range VisibleEntries(list) {
		gpu, found, err := findGPU(entry, have)
		if err != nil {
			return nil, &Error{visibleVar, list, err.Error()}
		}
		if !found {
			break
		}
		if slices.ContainsFunc(visible, func(v GPUInfo) bool { return v.UUID == gpu.UUID && v.PCI == gpu.PCI }) {
			return nil, &Error{visibleVar, list, entry + " is named twice, with which CUDA shows no GPU at all"}
		}
		visible = append(visible, gpu)
	}
	return visible, nil
}

// findGPU looks one entry up. found is false for a number beyond the GPUs.
func findGPU(entry string, have []GPUInfo) (gpu GPUInfo, found bool, err error) {
	if n, err := strconv.Atoi(entry); err == nil {
		if n >= len(have) {
			return gpu, false, nil
		}
		return have[n], true, nil
	}
	matches := matchUUID(entry, have)
	switch {
	case len(matches) == 1:
		return matches[0], true, nil
	case len(matches) > 1:
		return gpu, false, fmt.Errorf("%s fits %d GPUs: write more of it", entry, len(matches))
	case isMIG(entry):
		return gpu, false, fmt.Errorf("%s is no MIG instance that is known (without NVML none is)", entry)
	}
	return gpu, false, fmt.Errorf("%s is no GPU of this node, which has %s", entry, uuids(have))
}

func matchUUID(entry string, have []GPUInfo) []GPUInfo {
	var matches []GPUInfo
	for _, g := range have {
		if parent, old := strings.CutPrefix(entry, "MIG-GPU-"); old {
			if uuid, _, _ := strings.Cut(parent, "/"); g.UUID == "GPU-"+uuid {
				matches = append(matches, GPUInfo{UUID: entry, PCI: g.PCI})
			}
			continue
		}
		if strings.HasPrefix(entry, "GPU-") && strings.HasPrefix(g.UUID, entry) {
			matches = append(matches, g)
		}
		for _, instance := range g.Instances {
			if isMIG(entry) && strings.HasPrefix(instance, entry) {
				matches = append(matches, GPUInfo{UUID: instance, PCI: g.PCI})
			}
		}
	}
	return matches
}

func uuids(have []GPUInfo) string {
	if len(have) == 0 {
		return "none"
	}
	names := make([]string, len(have))
	for i, g := range have {
		names[i] = g.UUID
	}
	return strings.Join(names, ", ")
}

// LocalGPUs are the GPUs of the ranks that a launcher starts on this node: entry i
// is that of local rank i. It follows the rule of GPU, so that a single visible GPU
// is that of all ranks; nil means that there is no GPU.
func LocalGPUs(visible []GPUInfo, localWorld int) ([]GPUInfo, error) {
	switch {
	case len(visible) == 0:
		return nil, nil
	case len(visible) == 1:
		return slices.Repeat(visible, max(1, localWorld)), nil
	case localWorld > len(visible):
		return nil, crowded(Identity{LocalWorld: localWorld}, "", len(visible))
	}
	return visible[:localWorld], nil
}
