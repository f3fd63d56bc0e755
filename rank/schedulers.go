package rank

// field indexes the numbers of an Identity.
type field int

const (
	fieldRank field = iota
	fieldWorld
	fieldLocalRank
	fieldLocalWorld
	fieldNode
	fieldNodes
	fields
)

// numbers are the numbers of an identity, in the order of field.
func (id *Identity) numbers() [fields]*int {
	return [fields]*int{&id.Rank, &id.World, &id.LocalRank, &id.LocalWorld, &id.Node, &id.Nodes}
}

// scheduler says in which variables a launcher or scheduler tells a process who
// it is. It is data: one reader serves all rows. Where several names are given
// the first that is set counts.
type scheduler struct {
	name string
	vars [fields][]string

	// perNode lists the tasks of each node as Slurm writes it, "8(x4),2": the local
	// size where no variable gives it.
	perNode []string
	// hosts lists the nodes as Slurm writes it, "n[1-3,7]". The first one is the head.
	hosts []string
	head  string // the head's address by itself

	job, step []string // name of the job, and of the part of it that this is
	restarts  string   // how often the job was put back into the queue

	// daemon says that a daemon on each node starts the processes and sets these
	// variables for them alone, so that they are the innermost where they differ
	// from a scheduler that started the daemons. Of torchrun that holds where
	// TORCHELASTIC_RUN_ID is set: RANK alone may be anybody's.
	daemon bool
	// counted says that the index without the size is no claim: the scheduler gives
	// it to processes that are no ranks too.
	counted bool
}

// Names of the sources, as Detect and DetectNode return them.
const (
	Explicit   = "arguments" // an Override gave rank and world
	Torchrun   = "torchrun"  // torchrun's, our launcher's, and what sets the same
	Slurm      = "Slurm"
	SlurmBatch = "Slurm batch script" // of DetectNode: not in a step of srun
	OpenMPI    = "Open MPI"
	MVAPICH    = "MVAPICH"
	JSM        = "JSM" // jsrun, under LSF
	Flux       = "Flux"
	PMI        = "PMI" // MPICH, Intel MPI, Cray MPICH with PALS
	Kubeflow   = "Kubeflow"
	Kubernetes = "Kubernetes"
	Alone      = "single" // nothing is set
)

// torchrun is the worker environment of torchrun and of our launcher. DeepSpeed's
// launcher has other names for the sizes and nodes.
var torchrun = scheduler{
	name: Torchrun,
	vars: [fields][]string{{rankVar}, {worldVar}, {localRankVar}, {localWorldVar, "LOCAL_SIZE"}, {nodeVar, "CROSS_RANK"}, {nodesVar, "CROSS_SIZE"}},
	job:  []string{runIDVar},
}

// schedulers are those that start every rank, in order of precedence. Under
// Slurm only SLURM_STEP_NUM_TASKS counts the ranks: SLURM_NTASKS is the
// allocation's, and a batch script has SLURM_PROCID=0 without being a rank.
var schedulers = []scheduler{
	{
		name: Slurm,
		vars: [fields][]string{
			{"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS"}, {"SLURM_LOCALID"}, nil, {"SLURM_NODEID"}, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
		},
		perNode:  []string{"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"},
		hosts:    []string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
		job:      []string{"SLURM_JOB_ID", "SLURM_JOBID"},
		step:     []string{"SLURM_STEP_ID", "SLURM_STEPID"},
		restarts: "SLURM_RESTART_COUNT",
		counted:  true,
	},
	{
		// OMPI_COMM_WORLD_NODE_RANK is no number of a node: it counts the processes of
		// this node over all jobs.
		name: OpenMPI,
		vars: [fields][]string{
			{"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_RANK"}, {"OMPI_COMM_WORLD_LOCAL_SIZE"}, nil, nil,
		},
		job:    []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
		daemon: true,
	},
	{
		name: MVAPICH,
		vars: [fields][]string{
			{"MV2_COMM_WORLD_RANK"}, {"MV2_COMM_WORLD_SIZE"}, {"MV2_COMM_WORLD_LOCAL_RANK"}, {"MV2_COMM_WORLD_LOCAL_SIZE"}, nil, nil,
		},
		daemon: true,
	},
	{
		name: JSM,
		vars: [fields][]string{
			{"JSM_NAMESPACE_RANK"}, {"JSM_NAMESPACE_SIZE"}, {"JSM_NAMESPACE_LOCAL_RANK"}, {"JSM_NAMESPACE_LOCAL_SIZE"}, nil, nil,
		},
		job:    []string{"LSB_JOBID"},
		daemon: true,
	},
	{
		name:   Flux,
		vars:   [fields][]string{{"FLUX_TASK_RANK"}, {"FLUX_JOB_SIZE"}, {"FLUX_TASK_LOCAL_ID"}, nil, nil, {"FLUX_JOB_NNODES"}},
		job:    []string{"FLUX_JOB_ID"},
		daemon: true,
	},
	{
		// MPICH's and Intel's process manager (Hydra) sets PMI_* and MPI_LOCAL*, Cray's
		// (PALS) PMI_*, PMI_LOCAL_* and PALS_*.
		name: PMI,
		vars: [fields][]string{
			{"PMI_RANK", "PALS_RANKID"},
			{"PMI_SIZE"},
			{"PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "MPI_LOCALRANKID"},
			{"PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE", "MPI_LOCALNRANKS"},
			{"PALS_NODEID"},
			nil,
		},
		job:    []string{"PALS_APID", "PBS_JOBID"},
		daemon: true,
	},
}

// pods are schedulers that know pods, not processes: rank and size here are the
// node and the nodes. They speak for a process only where nothing else does, and
// then it is the only one of its pod.
var pods = []scheduler{
	{
		// What Kubeflow calls RANK and WORLD_SIZE is the pod's too.
		name: Kubeflow,
		vars: [fields][]string{{"PET_NODE_RANK"}, {petNodesVar}, nil, nil, nil, nil},
		head: "PET_MASTER_ADDR",
		job:  []string{"PET_RDZV_ID"},
		// torchrun takes PET_* as defaults of its flags, so a user may set one alone.
		counted: true,
	},
	{
		name:    Kubernetes,
		vars:    [fields][]string{{"JOB_COMPLETION_INDEX"}, {"NNODES"}, nil, nil, nil, nil},
		counted: true, // an indexed job may be many jobs of one process
	},
}
