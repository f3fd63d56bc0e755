package rank_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/rank"
)

func TestGPU(t *testing.T) {
	local := func(r, world int) rank.Identity {
		return rank.Identity{Rank: r, World: world, LocalRank: r, LocalWorld: world, Nodes: 1}
	}
	f := func(id rank.Identity, words string, visible, index, sharing int) {
		t.Helper()
		got, err := rank.GPU(id, env(words), visible)
		if err != nil || got.Index != index || got.Sharing != sharing || got.Reason == "" || strings.Contains(got.Reason, "\n") {
			t.Errorf("%q, rank %d of %d, %d visible: got %+v, %v, want %d shared by %d", words, id.LocalRank, id.LocalWorld, visible, got, err, index, sharing)
		}
	}
	f(rank.Single(), "", 0, -1, 1)
	f(local(3, 4), "", 0, -1, 1)
	f(local(3, 4), "CUDA_VISIBLE_DEVICES=", 4, -1, 1) // the companion's driver may see what its client is not to use
	f(local(3, 4), "CUDA_VISIBLE_DEVICES=-1", 0, -1, 1)
	f(rank.Single(), "", 8, 0, 1)
	f(local(3, 4), "", 8, 3, 1)
	f(local(3, 4), "CUDA_VISIBLE_DEVICES=7,6,5,4", 4, 3, 1)
	// One GPU is visible: everybody's, unless the list names just the rank.
	f(local(3, 4), "", 1, 0, 4)
	f(local(3, 4), "CUDA_VISIBLE_DEVICES=0", 1, 0, 4)
	f(local(3, 4), "CUDA_VISIBLE_DEVICES=3", 1, 0, 1)
	f(local(1, 2), "CUDA_VISIBLE_DEVICES=MIG-a", 1, 0, 2)
	// --virtual-local-rank.
	f(rank.Identity{Rank: 1, World: 2, LocalWorld: 2, Nodes: 1}, "CUDA_VISIBLE_DEVICES=1", 1, 0, 2)
	// Slurm's own GPUs of each task; but not of the task that is a launcher.
	f(fifth, slurmTask+" SLURM_GPUS_PER_TASK=1 CUDA_VISIBLE_DEVICES=0", 1, 0, 1)
	f(fifth, slurmTask+" SLURM_GPUS_PER_TASK=2 CUDA_VISIBLE_DEVICES=0,1", 2, 0, 1)
	f(fifth, slurmTask+" SLURM_TRES_PER_TASK=cpu=4,gres/gpu=2", 2, 0, 1)
	f(fifth, slurmAgent+" SLURM_GPUS_PER_TASK=4 CUDA_VISIBLE_DEVICES=0,1,2,3", 4, 1, 1)
}

// A refusal has the two numbers that do not fit, or the list.
func TestGPURefuses(t *testing.T) {
	f := func(id rank.Identity, words string, visible int, parts ...string) {
		t.Helper()
		got, err := rank.GPU(id, env(words), visible)
		if _, ok := errors.AsType[*rank.Error](err); !ok {
			t.Errorf("%q: got %+v, %v, want a refusal", words, got, err)
			return
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q does not say %q", words, err, part)
			}
		}
	}
	f(rank.Identity{Rank: 0, World: 4, LocalWorld: 4, Nodes: 1}, "CUDA_VISIBLE_DEVICES=2,3", 2, "LOCAL_WORLD_SIZE=4", "GPUs, 2", "2,3")
	f(rank.Identity{Rank: 0, World: 2, LocalWorld: 2, Nodes: 1}, "CUDA_VISIBLE_DEVICES=MIG-a,MIG-b", 1, "MIG-a,MIG-b", "2 ranks")
}

func TestVisibleGPUs(t *testing.T) {
	have := []rank.GPUInfo{
		{UUID: "GPU-aaaa1111", PCI: "0000:01:00.0"},
		{UUID: "GPU-aaaa2222", PCI: "0000:02:00.0", Instances: []string{"MIG-cccc1", "MIG-cccc2"}},
		{UUID: "GPU-bbbb3333", PCI: "0000:03:00.0"},
	}
	f := func(words string, want ...string) {
		t.Helper()
		got, err := rank.VisibleGPUs(env(words), have)
		names := make([]string, len(got))
		for i, g := range got {
			names[i] = g.UUID + "@" + g.PCI[5:7]
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%q: got %q, %v, want %q", words, names, err, want)
		}
	}
	const v = "CUDA_VISIBLE_DEVICES="
	f("", "GPU-aaaa1111@01", "GPU-aaaa2222@02", "GPU-bbbb3333@03")
	f(v)
	f(v + "-1")
	f(v + "NoDevFiles")
	f(v+"2,0", "GPU-bbbb3333@03", "GPU-aaaa1111@01")
	f(v+"2,-1,0", "GPU-bbbb3333@03")
	f(v+"2,3,0", "GPU-bbbb3333@03") // CUDA ends the list where it cannot follow
	f(v+"GPU-b,GPU-aaaa2", "GPU-bbbb3333@03", "GPU-aaaa2222@02")
	f(v+"GPU-b,0", "GPU-bbbb3333@03", "GPU-aaaa1111@01")
	f(v+"MIG-cccc2", "MIG-cccc2@02")
	f(v+"MIG-GPU-aaaa2222/3/0,MIG-GPU-aaaa2222/4/0", "MIG-GPU-aaaa2222/3/0@02", "MIG-GPU-aaaa2222/4/0@02")
	for list, part := range map[string]string{
		"0,0": "twice", "GPU-aaaa": "fits 2", "GPU-d": "GPU-aaaa1111, GPU-aaaa2222", "MIG-d": "MIG instance", "x": "no GPU", "1,GPU-aaaa2": "twice",
	} {
		if got, err := rank.VisibleGPUs(env(v+list), have); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, %v", list, got, err)
		}
	}
}

func TestLocalGPUs(t *testing.T) {
	two := []rank.GPUInfo{{UUID: "a"}, {UUID: "b"}}
	f := func(visible []rank.GPUInfo, localWorld int, want string) {
		t.Helper()
		got, err := rank.LocalGPUs(visible, localWorld)
		text := ""
		for _, g := range got {
			text += g.UUID
		}
		if err != nil || text != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
	}
	f(nil, 4, "")
	f(two, 1, "a")
	f(two, 2, "ab")
	f(two[:1], 3, "aaa")
	if got, err := rank.LocalGPUs(two, 3); err == nil || !strings.Contains(err.Error(), "=3") || !strings.Contains(err.Error(), ", 2") {
		t.Errorf("got %v, %v", got, err)
	}
}

// No list of CUDA_VISIBLE_DEVICES gives more GPUs than there are, or one twice.
func FuzzVisibleGPUs(f *testing.F) {
	for _, list := range []string{"0,1", "GPU-a,GPU-b", "MIG-c", "MIG-GPU-a/1/2", "-1", "1,-1", " 0 , 1"} {
		f.Add(list)
	}
	have := []rank.GPUInfo{{UUID: "GPU-a", PCI: "1"}, {UUID: "GPU-b", PCI: "2", Instances: []string{"MIG-c", "MIG-d"}}}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := rank.VisibleGPUs(func(string) (string, bool) { return list, true }, have)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, g := range got {
			if seen[g.UUID] || g.PCI != "1" && g.PCI != "2" {
				t.Errorf("%q: %+v", list, got)
			}
			seen[g.UUID] = true
		}
	})
}
