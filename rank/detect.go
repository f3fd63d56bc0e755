package rank

import "strconv"

// The variables of torchrun, and ours.
const (
	rankVar       = "RANK"
	worldVar      = "WORLD_SIZE"
	localRankVar  = "LOCAL_RANK"
	localWorldVar = "LOCAL_WORLD_SIZE"
	nodeVar       = "GROUP_RANK"
	nodesVar      = "GROUP_WORLD_SIZE"
	runIDVar      = "TORCHELASTIC_RUN_ID"

	engineVar  = "HEADRACE_ENGINE"
	agentVar   = "HEADRACE_AGENT"
	viewVar    = "HEADRACE_VIEW"
	keyFileVar = "HEADRACE_KEY_FILE"
)

// Lookup gives the value of an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// source is one way in which a job tells its ranks who they are. found is false
// where none of its variables is set.
type source struct {
	name string
	read func(Lookup) (id Identity, found bool, err error)
}

// Detect reads the identity of this process from its environment and names the
// source that it came from: "torchrun" for the variables that torchrun and our
// launcher set, "single" where there are none. A variable that is set but empty
// counts as not set. Values that are malformed or that contradict each other are
// an *Error; nothing is guessed past them.
func Detect(lookup func(string) (string, bool)) (Identity, string, error) {
	// In order of precedence. Schedulers (Slurm, MPI, Kubernetes) come below
	// torchrun: a launcher that runs under one knows better than its environment.
	sources := []source{
		{"torchrun", torchrun},
	}
	id, name := Single(), "single"
	for _, s := range sources {
		got, found, err := s.read(lookup)
		if err != nil {
			return Identity{}, s.name, err
		}
		if found {
			id, name = got, s.name
			break
		}
	}
	if err := id.Validate(); err != nil {
		return Identity{}, name, err
	}
	if err := ours(lookup, &id); err != nil {
		return Identity{}, name, err
	}
	return id, name, nil
}

// torchrun reads the worker environment of torchrun. Launchers that set a part
// of it are understood as far as the rest follows: without LOCAL_* and GROUP_*
// the job is on one node, without GROUP_* all nodes have as many ranks as this
// one.
func torchrun(lookup Lookup) (Identity, bool, error) {
	v := reader{lookup: lookup}
	var id Identity
	var global, local, group bool
	id.Rank, id.World, global = v.pair(rankVar, worldVar)
	id.LocalRank, id.LocalWorld, local = v.pair(localRankVar, localWorldVar)
	id.Node, id.Nodes, group = v.pair(nodeVar, nodesVar)
	if v.err != nil {
		return id, false, v.err
	}
	if !global {
		return id, false, orphan(local, group)
	}
	if !local {
		if group && id.Nodes != 1 {
			return id, false, &Error{localRankVar, "", "the job has several nodes (" + relate(nodesVar, id.Nodes) + "); set it and " + localWorldVar}
		}
		id.LocalRank, id.LocalWorld = id.Rank, id.World
	}
	if !group {
		if err := id.evenNodes(); err != nil {
			return id, false, err
		}
	}
	id.RunID, _ = v.text(runIDVar)
	return id, true, nil
}

// orphan refuses an environment that has a rank's local or node numbers but not
// its rank.
func orphan(local, group bool) error {
	switch {
	case local:
		return &Error{rankVar, "", localRankVar + " is; set both, or neither for a single process"}
	case group:
		return &Error{rankVar, "", nodeVar + " is; set both, or neither for a single process"}
	}
	return nil
}

// evenNodes fills in the nodes of a job in which all have as many ranks. Numbers
// that are wrong in themselves are left to Validate.
func (id *Identity) evenNodes() error {
	id.Node, id.Nodes = 0, 1
	if id.LocalWorld < 1 || id.LocalWorld >= id.World {
		return nil
	}
	if id.World%id.LocalWorld != 0 {
		return &Error{nodeVar, "", relate(worldVar, id.World) + " is not a multiple of " +
			relate(localWorldVar, id.LocalWorld) + ", so the node does not follow; set it and " + nodesVar}
	}
	id.Node, id.Nodes = id.Rank/id.LocalWorld, id.World/id.LocalWorld
	return nil
}

// ours adds the variables of headrace.
func ours(lookup Lookup, id *Identity) error {
	v := reader{lookup: lookup}
	id.Engine, _ = v.text(engineVar)
	id.Agent, _ = v.text(agentVar)
	id.KeyFile, _ = v.text(keyFileVar)
	if text, ok := v.text(viewVar); ok {
		view, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return &Error{viewVar, text, "not the number of a view"}
		}
		id.View = &view
	}
	return nil
}

// reader reads variables; the first error stays.
type reader struct {
	lookup Lookup
	err    error
}

func (r *reader) text(name string) (string, bool) {
	value, ok := r.lookup(name)
	return value, ok && value != ""
}

func (r *reader) number(name string) (n int, ok bool) {
	text, ok := r.text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil && r.err == nil {
		r.err = &Error{name, text, "not an integer"}
	}
	return n, true
}

// pair reads an index and the size that it counts in: both or neither are set.
func (r *reader) pair(index, size string) (i, n int, ok bool) {
	i, haveIndex := r.number(index)
	n, haveSize := r.number(size)
	if haveIndex != haveSize && r.err == nil {
		there, missing := index, size
		if haveSize {
			there, missing = size, index
		}
		r.err = &Error{missing, "", there + " is; they belong together"}
	}
	return i, n, haveIndex && haveSize
}
