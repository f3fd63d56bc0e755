package rank_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/rank"
)

// Environments as the schedulers set them, reduced to what is read.
const (
	slurmTask   = "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=4(x2) SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_NTASKS=99 SLURM_NNODES=9"
	slurmAgent  = "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=gpu[03-04] SLURM_RESTART_COUNT=2"
	slurmBatch  = "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=8 SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4(x2) SLURM_JOB_ID=77"
	torchWorker = "RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=abc"
	ompiTask    = "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_NODE_RANK=1"
)

// fifth is rank 5 of two nodes of four.
var fifth = rank.Identity{Rank: 5, World: 8, LocalRank: 1, LocalWorld: 4, Node: 1, Nodes: 2}

func named(id rank.Identity, job string) rank.Identity {
	id.RunID = job
	return id
}

func TestDetectSchedulers(t *testing.T) {
	third := rank.Identity{Rank: 3, World: 8, LocalRank: 3, LocalWorld: 4, Nodes: 2, RunID: "abc"}
	f := func(words, source string, want rank.Identity) {
		t.Helper()
		got, from, err := rank.Detect(env(words))
		if err != nil || from != source || got != want {
			t.Errorf("%s:\n got %+v from %s, %v\nwant %+v from %s", words, got, from, err, want, source)
		}
	}
	f(slurmTask, rank.Slurm, named(fifth, "77.0"))
	f("SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=10 SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_NNODES=3 SLURM_TASKS_PER_NODE=4(x2),2",
		rank.Slurm, rank.Identity{Rank: 8, World: 10, LocalWorld: 2, Node: 2, Nodes: 3})
	// A batch script is no rank, however many tasks its allocation is for.
	f(slurmBatch, rank.Alone, rank.Single())
	f("SLURM_NTASKS=8 SLURM_NNODES=2 SLURM_JOB_ID=77", rank.Alone, rank.Single())

	// DeepSpeed's launcher, by itself and started by srun.
	const deepSpeed = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_SIZE=4 CROSS_RANK=1 CROSS_SIZE=2"
	f(deepSpeed, rank.Torchrun, fifth)
	f(deepSpeed+" "+slurmAgent, rank.Torchrun, fifth)

	f(ompiTask, rank.OpenMPI, fifth)
	// Ranks dealt out to the nodes in turn (mpirun --map-by node).
	f("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4",
		rank.OpenMPI, rank.Identity{Rank: 5, World: 8, LocalRank: 2, LocalWorld: 4, Node: 1, Nodes: 2})
	f("MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=4", rank.MVAPICH, fifth)
	f("JSM_NAMESPACE_RANK=5 JSM_NAMESPACE_SIZE=8 JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=4 LSB_JOBID=9", rank.JSM, named(fifth, "9"))
	f("FLUX_TASK_RANK=5 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f4 PMI_RANK=5 PMI_SIZE=8", rank.Flux, named(fifth, "f4"))
	f("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4", rank.PMI, fifth)
	f("PMI_RANK=5 PMI_SIZE=8 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PALS_RANKID=5 PALS_NODEID=1 PALS_LOCAL_RANKID=1 PALS_APID=aa", rank.PMI, named(fifth, "aa"))
	f("PMI_RANK=0 PMI_SIZE=1", rank.PMI, rank.Single())
	// jsrun starts Open MPI's ranks: two tables that agree.
	f(ompiTask+" JSM_NAMESPACE_RANK=5 JSM_NAMESPACE_SIZE=8", rank.OpenMPI, fifth)

	pod := rank.Identity{Rank: 1, World: 3, LocalWorld: 1, Node: 1, Nodes: 3}
	f("JOB_COMPLETION_INDEX=1 NNODES=3", rank.Kubernetes, pod)
	f("JOB_COMPLETION_INDEX=1", rank.Alone, rank.Single())
	f("PET_NODE_RANK=1 PET_NNODES=3 PET_NPROC_PER_NODE=1 RANK=1 WORLD_SIZE=3", rank.Kubeflow, pod)
	f("PET_NODE_RANK=1 PET_NNODES=3:3 PET_NPROC_PER_NODE=auto", rank.Kubeflow, pod)
	f("PET_NNODES=1:4 PET_NPROC_PER_NODE=2", rank.Alone, rank.Single())
	// A launcher in the pod overwrote RANK for each worker.
	f(torchWorker+" PET_NODE_RANK=0 PET_NNODES=2 PET_NPROC_PER_NODE=4 JOB_COMPLETION_INDEX=6 NNODES=2", rank.Torchrun, third)

	// torchrun in a step of srun, one agent a node: RANK and SLURM_PROCID differ, and
	// so may the nodes' numbers. Also in a batch script, in a shell of srun, under
	// mpirun, and with one worker an agent.
	f(torchWorker+" "+slurmAgent, rank.Torchrun, third)
	f(torchWorker+" "+slurmBatch, rank.Torchrun, third)
	f(torchWorker+" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NNODES=2 SLURM_TASKS_PER_NODE=1", rank.Torchrun, third)
	f(torchWorker+" OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", rank.Torchrun, third)
	f("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x "+slurmAgent,
		rank.Torchrun, rank.Identity{World: 2, LocalWorld: 1, Nodes: 2, RunID: "x"})
	// mpirun whose daemons srun started, on all nodes or all but its own.
	f(ompiTask+" "+slurmAgent, rank.OpenMPI, fifth)
	f(ompiTask+" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE=1", rank.OpenMPI, fifth)
	// srun --mpi=pmi2 tells the same twice, and PMI alone would not know the node.
	f(slurmTask+" PMI_RANK=5 PMI_SIZE=8", rank.Slurm, named(fifth, "77.0"))
	// A script that sets torchrun's variables from Slurm's: what it leaves out follows.
	f("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 "+slurmTask, rank.Torchrun, named(fifth, "77.0"))
	f("RANK=5 WORLD_SIZE=8 "+slurmTask, rank.Torchrun, named(fifth, "77.0"))
	f("LOCAL_RANK=1 "+slurmTask, rank.Slurm, named(fifth, "77.0"))
}

// Both sources and both variables are in the message of a contradiction.
func TestDetectContradictions(t *testing.T) {
	f := func(words string, parts ...string) {
		t.Helper()
		id, _, err := rank.Detect(env(words))
		if _, ok := errors.AsType[*rank.Error](err); !ok {
			t.Errorf("%s: got %+v, %v, want a refusal", words, id, err)
			return
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not name %s", words, err, part)
			}
		}
	}
	f("RANK=3 WORLD_SIZE=8 "+slurmTask, "RANK=3", "WORLD_SIZE=8", "torchrun", "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "Slurm")
	f("RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 "+slurmTask, "RANK=3", "SLURM_PROCID=5")
	// Four agents on each node, each of which believes to have the node for itself.
	f(torchWorker+" "+slurmTask, "torchrun", "Slurm")
	// Eight launchers, each with a job of its own.
	f("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=x "+slurmTask, "torchrun", "Slurm")
	// One rank a node, and nobody in between who could have set RANK.
	f("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "+slurmAgent, "RANK=0", "SLURM_PROCID=1")
	f("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 "+ompiTask, "Open MPI", "PMI_RANK=1")
	f("LOCAL_RANK=2 "+slurmTask, "LOCAL_RANK=2", "Slurm", "SLURM_LOCALID=1")
	f("PET_NODE_RANK=1 PET_NNODES=3 RANK=2 WORLD_SIZE=3", "RANK=2", "Kubeflow", "PET_NODE_RANK=1")
	f("PET_NODE_RANK=1 PET_NNODES=3 PET_NPROC_PER_NODE=2 RANK=1 WORLD_SIZE=5", "WORLD_SIZE=5", "PET_NNODES=3")
	f("PET_NODE_RANK=1 PET_NNODES=3 PET_NPROC_PER_NODE=2 RANK=1 WORLD_SIZE=6", "PET_NPROC_PER_NODE=2", "headrace launch")
	// Malformed or missing, by the scheduler's own names.
	f("SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4(x2)", "SLURM_PROCID=8", "SLURM_STEP_NUM_TASKS=8")
	f("SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4(y2)", "SLURM_TASKS_PER_NODE", "4(y2)")
	f("SLURM_STEP_NUM_TASKS=8", "SLURM_PROCID")
	f("PMI_RANK=5 PMI_SIZE=8", "PMI_LOCAL_RANK", "PMI_SIZE=8")
	f("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE")
	f("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_SIZE=6")
	f("JOB_COMPLETION_INDEX=3 NNODES=3", "JOB_COMPLETION_INDEX=3")
}

func TestOverride(t *testing.T) {
	p := func(n int) *int { return &n }
	f := func(o rank.Override, words, source string, want rank.Identity) {
		t.Helper()
		got, from, err := o.Detect(env(words))
		if err != nil || from != source || got != want {
			t.Errorf("%s:\n got %+v from %s, %v\nwant %+v from %s", words, got, from, err, want, source)
		}
	}
	whole := rank.Override{Rank: p(0), World: p(2), LocalRank: p(0), LocalWorld: p(1)}
	f(whole, "", rank.Explicit, rank.Identity{World: 2, LocalWorld: 1, Nodes: 2})
	// It wins over an environment that is refused otherwise.
	f(whole, "RANK=3 WORLD_SIZE=8 "+slurmTask+" HEADRACE_AGENT=/a", rank.Explicit, rank.Identity{World: 2, LocalWorld: 1, Nodes: 2, Agent: "/a"})
	f(rank.Override{Rank: p(1), World: p(2)}, "", rank.Explicit, rank.Identity{Rank: 1, World: 2, LocalRank: 1, LocalWorld: 2, Nodes: 1})
	// The place on the node stays the environment's.
	f(rank.Override{Rank: p(7), World: p(8)}, slurmTask, rank.Explicit,
		rank.Identity{Rank: 7, World: 8, LocalRank: 1, LocalWorld: 4, Node: 1, Nodes: 2, RunID: "77.0"})
	f(rank.Override{LocalRank: p(0)}, slurmTask, rank.Slurm, rank.Identity{Rank: 5, World: 8, LocalWorld: 4, Node: 1, Nodes: 2, RunID: "77.0"})
	id := "mine"
	f(rank.Override{RunID: &id}, slurmTask, rank.Slurm, named(fifth, "mine"))

	for _, o := range []rank.Override{{Rank: p(1)}, {World: p(1)}, {Rank: p(2), World: p(2)}, {Rank: p(0), World: p(0)}} {
		if got, _, err := o.Detect(env("")); err == nil || !strings.Contains(err.Error(), "arguments: ") {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	// Fewer ranks than this node has: the plan would not fit the node.
	if got, _, err := (rank.Override{Rank: p(1), World: p(2)}).Detect(env(slurmTask)); err == nil || !strings.Contains(err.Error(), "world size=2") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDetectNode(t *testing.T) {
	f := func(words, source string, want rank.NodePlace) {
		t.Helper()
		got, from, err := rank.DetectNode(env(words))
		if err != nil || from != source || got != want {
			t.Errorf("%s:\n got %+v from %s, %v\nwant %+v from %s", words, got, from, err, want, source)
		}
	}
	f("", rank.Alone, rank.NodePlace{Nodes: 1})
	f(slurmAgent, rank.Slurm, rank.NodePlace{Node: 1, Nodes: 2, Head: "gpu03", JobID: "77.0", Restarts: 2})
	// A launcher in a batch script has the first node, and no other.
	f(slurmBatch+" SLURM_RESTART_COUNT=1", rank.SlurmBatch, rank.NodePlace{Nodes: 1, JobID: "77", Restarts: 1})
	f("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", rank.OpenMPI, rank.NodePlace{Node: 1, Nodes: 2})
	f("PMI_RANK=2 PMI_SIZE=3 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=1", rank.PMI, rank.NodePlace{Node: 2, Nodes: 3})
	f("JOB_COMPLETION_INDEX=2 NNODES=4", rank.Kubernetes, rank.NodePlace{Node: 2, Nodes: 4})
	f("JOB_COMPLETION_INDEX=2", rank.Kubernetes, rank.NodePlace{Node: 2})
	f("HOSTNAME=train-a-3 KUBERNETES_SERVICE_HOST=10.0.0.1 NNODES=4", rank.Kubernetes, rank.NodePlace{Node: 3, Nodes: 4, JobID: "train-a"})
	f("HOSTNAME=train-3 NNODES=4", rank.Alone, rank.NodePlace{Nodes: 1})
	f("HOSTNAME=train-x7k KUBERNETES_SERVICE_HOST=10.0.0.1 NNODES=4", rank.Alone, rank.NodePlace{Nodes: 1})
	f("PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=8 PET_MASTER_ADDR=job-master-0 RANK=1 WORLD_SIZE=16", rank.Kubeflow,
		rank.NodePlace{Node: 1, Nodes: 2, Head: "job-master-0"})

	for words, part := range map[string]string{
		slurmTask:                      "srun --ntasks-per-node=1",
		ompiTask:                       "OMPI_COMM_WORLD_LOCAL_SIZE=4",
		"PET_NODE_RANK=2 PET_NNODES=2": "PET_NODE_RANK=2",
		strings.Replace(slurmAgent, "gpu[03-04]", "gpu[03-", 1):  "SLURM_STEP_NODELIST",
		strings.Replace(slurmAgent, "COUNT=2", "COUNT=two", 1):   "SLURM_RESTART_COUNT",
		strings.Replace(slurmAgent, "PROCID=1", "PROCID=x", 1):   "SLURM_PROCID=x",
		strings.Replace(slurmAgent, "SLURM_LOCALID=0", "X=1", 1): "SLURM_LOCALID",
		strings.Replace(slurmAgent, "NODE=1(x2)", "NODE=1,0", 1): "1,0",
	} {
		if got, _, err := rank.DetectNode(env(words)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %+v, %v, want %s named", words, got, err, part)
		}
	}
}

// Whatever an environment holds, an identity that comes out is one, and a refusal
// is an *Error.
func FuzzEnvironment(f *testing.F) {
	for _, words := range []string{slurmTask, slurmAgent, slurmBatch, torchWorker, ompiTask, torchWorker + " " + slurmAgent, "RANK=5 WORLD_SIZE=8 " + slurmTask, "PET_NODE_RANK=1 PET_NNODES=3:3 RANK=1 WORLD_SIZE=3", "JOB_COMPLETION_INDEX=1 NNODES=3"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		id, _, err := rank.Detect(env(words))
		if _, ours := errors.AsType[*rank.Error](err); err != nil && !ours {
			t.Errorf("error of another type: %v", err)
		}
		if invalid := id.Validate(); err == nil && invalid != nil {
			t.Errorf("%+v: %v", id, invalid)
		}
		place, _, err := rank.DetectNode(env(words))
		if err == nil && (place.Node < 0 || place.Nodes < 0 || place.Nodes > 0 && place.Node >= place.Nodes) {
			t.Errorf("%+v", place)
		}
	})
}
