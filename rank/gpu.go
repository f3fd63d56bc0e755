package rank

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	visibleVar = "CUDA_VISIBLE_DEVICES"
	// Slurm gives each task GPUs of its own where one of these is set, numbered from 0.
	perTaskVar  = "SLURM_GPUS_PER_TASK"
	perTaskVar2 = "SLURM_TRES_PER_TASK"
)

// GPUChoice is the GPU of a rank.
type GPUChoice struct {
	// Index counts the devices that the process sees: it is N of "cuda:N". -1 is none.
	Index int
	// Sharing is the number of ranks of this node that may use the same GPU, at least
	// 1. Defaults of GPU memory are divided by it.
	Sharing int
	Reason  string // one line
}

// Device is "cuda:N", or "cpu" where there is no GPU.
func (c GPUChoice) Device() string {
	if c.Index < 0 {
		return "cpu"
	}
	return "cuda:" + strconv.Itoa(c.Index)
}

// GPU chooses the rank's GPU among the visible ones that the driver counts in this
// process, that is, after CUDA_VISIBLE_DEVICES:
//
//	none                              no GPU
//	as many as ranks on the node      the one with the local rank's number
//	one, or Slurm's GPUs of the task  number 0: each process is shown its own, or
//	                                  the ranks share the only one
//	fewer than ranks                  an *Error with the numbers
//
// Two ranks that are shown the same several MIG instances are refused too: CUDA
// opens the first of them in every process.
func GPU(id Identity, lookup func(string) (string, bool), visible int) (GPUChoice, error) {
	list, listed := lookup(visibleVar)
	entries := VisibleEntries(list)
	switch {
	case listed && len(entries) == 0:
		return GPUChoice{-1, 1, visibleVar + " hides all GPUs"}, nil
	case visible <= 0:
		return GPUChoice{-1, 1, "no GPU is visible"}, nil
	case ownGPUs(id, lookup):
		return GPUChoice{0, 1, "the first of the task's own GPUs, which Slurm gave it"}, nil
	case len(entries) > 1 && isMIG(entries[0]) && id.LocalWorld > 1:
		return GPUChoice{}, &Error{visibleVar, list, fmt.Sprintf("a process sees the first MIG instance only, so that all %d ranks of the node would share it: give each rank one entry, as --virtual-local-rank does", id.LocalWorld)}
	case visible == 1:
		return onlyGPU(id, entries), nil
	case id.LocalWorld > visible:
		return GPUChoice{}, crowded(id, list, visible)
	case id.LocalRank < 0 || id.LocalRank >= visible:
		return GPUChoice{}, wrong(localRankVar, id.LocalRank, fmt.Sprintf("below the number of visible GPUs, %d", visible))
	}
	return GPUChoice{id.LocalRank, 1, fmt.Sprintf("GPU %d of %d for local rank %d", id.LocalRank, visible, id.LocalRank)}, nil
}

func crowded(id Identity, list string, visible int) error {
	shown := ""
	if list != "" {
		shown = " (" + visibleVar + "=" + list + ")"
	}
	return wrong(localWorldVar, id.LocalWorld, fmt.Sprintf("at most the number of visible GPUs, %d%s: start no more ranks on a node than it has GPUs, or name the device of each rank, which may be cpu", visible, shown))
}

// onlyGPU is the choice where one device is visible. Whether the other ranks of
// the node see the same one cannot be told in general; they are taken to, since
// too large a default ends in out of memory and too small a one does not. A list
// of just this rank's number shows that they do not.
func onlyGPU(id Identity, entries []string) GPUChoice {
	c := GPUChoice{0, max(1, id.LocalWorld), "the only GPU that is visible"}
	if len(entries) == 1 && id.LocalRank > 0 && entries[0] == strconv.Itoa(id.LocalRank) {
		c.Sharing, c.Reason = 1, "the rank's own GPU, the only one that is visible"
	}
	return c
}

// ownGPUs reports whether this very process is a Slurm task with GPUs of its own.
// Workers of a launcher inherit these variables from the launcher's task; they are
// other ranks than it.
func ownGPUs(id Identity, lookup Lookup) bool {
	v := reader{lookup: lookup}
	_, count := v.first([]string{perTaskVar})
	_, tres := v.first([]string{perTaskVar2})
	if count == "" && !strings.Contains(tres, "gpu") {
		return false
	}
	c, found, err := schedulers[0].read(lookup)
	return found && err == nil && c.id.Rank == id.Rank && c.id.World == id.World
}

// VisibleEntries are the entries of CUDA_VISIBLE_DEVICES that count: as CUDA reads it,
// the list ends at the first that is no device, such as -1.
func VisibleEntries(list string) []string {
	var entries []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" || strings.HasPrefix(entry, "-") || strings.HasPrefix(entry, "NoDevFiles") {
			break
		}
		entries = append(entries, entry)
	}
	return entries
}

func isMIG(entry string) bool { return strings.HasPrefix(entry, "MIG-") }
