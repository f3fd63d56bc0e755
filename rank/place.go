package rank

import (
	"strconv"
	"strings"
)

// NodePlace is the place of this node among those of the job, for a launcher that
// a scheduler started once on each node.
type NodePlace struct {
	Node  int
	Nodes int // 0: not told; a flag must say it

	Head  string // name or address of node 0, "" if not told
	JobID string // the same on all nodes and other for every job, "" if not told

	// Restarts counts how often the scheduler put the job back into its queue.
	Restarts int
}

// DetectNode finds the place of this node from what the scheduler set, and names
// the source; Alone is a single node. Two launchers on one node are refused, since
// each would use all of its GPUs. Flags win: a launcher that is told nodes and
// node rank does not ask.
func DetectNode(lookup func(string) (string, bool)) (NodePlace, string, error) {
	for _, s := range pods {
		c, found, err := s.readPod(lookup)
		if err != nil {
			return NodePlace{}, s.name, err
		}
		if found {
			return c.pod(lookup)
		}
	}
	if place, source, ok := unnumberedPod(lookup); ok {
		return place, source, nil
	}
	c, err := agentClaim(lookup)
	if err != nil {
		return NodePlace{}, c.from(), err
	}
	if c.source.name == Alone {
		return batchScript(lookup)
	}
	return c.agent(lookup)
}

// pod is the place of a pod.
func (c *claim) pod(lookup Lookup) (NodePlace, string, error) {
	c.id.LocalWorld, c.id.Node, c.id.Nodes = 1, c.id.Rank, c.id.World
	if err := c.id.validate(c.name); err != nil {
		return NodePlace{}, c.from(), err
	}
	place := NodePlace{Node: c.id.Rank, Nodes: c.id.World, JobID: c.id.RunID}
	if c.source.head != "" {
		place.Head, _ = lookup(c.source.head)
	}
	return place, c.source.name, nil
}

// unnumberedPod is a pod of Kubernetes that knows its own index only: of an
// indexed job that does not say how many it has, or of a stateful set, whose pods
// are called NAME-INDEX, if the user says how many nodes there are.
func unnumberedPod(lookup Lookup) (NodePlace, string, bool) {
	v := reader{lookup: lookup}
	if _, index := v.first([]string{"JOB_COMPLETION_INDEX"}); index != "" {
		node, err := strconv.ParseUint(index, 10, 31)
		return NodePlace{Node: int(node)}, Kubernetes, err == nil
	}
	_, pod := v.first([]string{"HOSTNAME"})
	_, inside := v.text("KUBERNETES_SERVICE_HOST")
	nodes, named := v.number([]string{"NNODES"})
	set, ordinal, numbered := pod, "", false
	if cut := strings.LastIndexByte(pod, '-'); cut >= 0 {
		set, ordinal, numbered = pod[:cut], pod[cut+1:], true
	}
	node, err := strconv.ParseUint(ordinal, 10, 31)
	if !inside || named == "" || !numbered || v.err != nil || err != nil || int(node) >= nodes {
		return NodePlace{}, "", false
	}
	return NodePlace{Node: int(node), Nodes: nodes, JobID: set}, Kubernetes, true
}

// agentClaim is the task that the launcher is. Variables of torchrun are those of
// a job around this one, if any, and do not count.
func agentClaim(lookup Lookup) (claim, error) {
	var claims []claim
	for _, s := range schedulers {
		c, found, err := s.read(lookup)
		if err != nil {
			return c, err
		}
		if found {
			claims = append(claims, c)
		}
	}
	if len(claims) == 0 {
		return alone(), nil
	}
	won, err := innermost(claims)
	if err != nil {
		return won, err
	}
	for i := range claims {
		if won.same(&claims[i]) {
			won.fill(&claims[i])
		}
	}
	return won, won.complete()
}

// agent is the place of a launcher that a scheduler started as a task.
func (c *claim) agent(lookup Lookup) (NodePlace, string, error) {
	if c.id.LocalWorld != 1 {
		return NodePlace{}, c.from(), wrong(c.name(fieldLocalWorld), c.id.LocalWorld,
			"1: "+c.source.name+" started this launcher several times on one node, and it starts the ranks itself; start one a node (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node)")
	}
	place := NodePlace{Node: c.id.Node, Nodes: c.id.Nodes, JobID: c.id.RunID}
	err := place.queue(c.source, lookup)
	return place, c.source.name, err
}

// queue adds what the scheduler tells of the job.
func (p *NodePlace) queue(s scheduler, lookup Lookup) error {
	v := reader{lookup: lookup}
	if s.restarts != "" {
		p.Restarts, _ = v.number([]string{s.restarts})
	}
	if name, list := v.first(s.hosts); name != "" && p.Nodes > 1 {
		hosts, err := Hosts(list)
		if err != nil {
			return &Error{name, list, err.Error()}
		}
		p.Head = hosts[0]
	}
	return v.err
}

// batchScript is a launcher outside any step: on the first node of a Slurm job,
// where it stays alone however many nodes the job has, as torchrun does; or on no
// scheduler's node at all.
func batchScript(lookup Lookup) (NodePlace, string, error) {
	place := NodePlace{Nodes: 1}
	s := schedulers[0]
	v := reader{lookup: lookup}
	if _, job := v.first(s.job); job == "" {
		return place, Alone, nil
	}
	place.JobID = s.runID(&v)
	err := place.queue(s, lookup)
	return place, SlurmBatch, err
}
