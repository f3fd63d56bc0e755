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

	petNodesVar = "PET_NNODES"
	petLocalVar = "PET_NPROC_PER_NODE"

	engineVar  = "HEADRACE_ENGINE"
	agentVar   = "HEADRACE_AGENT"
	viewVar    = "HEADRACE_VIEW"
	keyFileVar = "HEADRACE_KEY_FILE"
)

// Lookup gives the value of an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// reader reads variables; the first error stays. A variable that is set but
// empty counts as not set.
type reader struct {
	lookup Lookup
	err    error
}

// first is the first of the variables that is set.
func (r *reader) first(names []string) (name, value string) {
	for _, name := range names {
		if value, ok := r.text(name); ok {
			return name, value
		}
	}
	return "", ""
}

func (r *reader) text(name string) (string, bool) {
	value, ok := r.lookup(name)
	return value, ok && value != ""
}

// number is the first of the variables that is set, "" as its name for none.
func (r *reader) number(names []string) (n int, name string) {
	name, text := r.first(names)
	if name == "" {
		return 0, ""
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.fail(&Error{name, text, "not an integer"})
	}
	return n, name
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
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

// KeyFile is the file with the job's key (HEADRACE_KEY_FILE); "": none is named.
func KeyFile(lookup Lookup) string {
	file, _ := lookup(keyFileVar)
	return file
}
