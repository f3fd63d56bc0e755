package rank

// Identity is the place of a process in its job.
type Identity struct {
	Rank  int // 0 <= Rank < World
	World int // ranks of the job

	// LocalRank is the index of the rank's GPU on its node. Where the launcher
	// shows each rank one GPU only, it is 0 for all of them.
	LocalRank  int
	LocalWorld int // ranks on this node

	Node  int // 0 <= Node < Nodes
	Nodes int

	RunID string // name of the job, the same on all ranks; may be empty

	Engine  string // HEADRACE_ENGINE
	Agent   string // HEADRACE_AGENT
	KeyFile string // HEADRACE_KEY_FILE

	// View is HEADRACE_VIEW: nil where no coordinator gave one. View 0 is a view.
	View *uint64
}

// Single is the identity of a process that is its whole job.
func Single() Identity {
	return Identity{World: 1, LocalWorld: 1, Nodes: 1}
}

// Validate finds the first contradiction between the numbers.
func (id Identity) Validate() error {
	return id.validate(func(f field) string { return torchrun.vars[f][0] })
}

// validate is Validate for numbers that came from variables with other names.
func (id Identity) validate(name func(field) string) error {
	relate := func(f field, value int) string { return relate(name(f), value) }
	for _, c := range [...]struct {
		ok           bool
		field        field
		value        int
		rule, detail string
	}{
		{id.World >= 1, fieldWorld, id.World, "at least 1", ""},
		{id.Rank >= 0, fieldRank, id.Rank, "at least 0", ""},
		{id.Rank < id.World, fieldRank, id.Rank, "below", relate(fieldWorld, id.World)},
		{id.LocalWorld >= 1, fieldLocalWorld, id.LocalWorld, "at least 1", ""},
		{id.LocalWorld <= id.World, fieldLocalWorld, id.LocalWorld, "at most", relate(fieldWorld, id.World)},
		{id.LocalRank >= 0, fieldLocalRank, id.LocalRank, "at least 0", ""},
		{id.LocalRank < id.LocalWorld, fieldLocalRank, id.LocalRank, "below", relate(fieldLocalWorld, id.LocalWorld)},
		{id.Nodes >= 1, fieldNodes, id.Nodes, "at least 1", ""},
		{id.Node >= 0, fieldNode, id.Node, "at least 0", ""},
		{id.Node < id.Nodes, fieldNode, id.Node, "below", relate(fieldNodes, id.Nodes)},
		{id.Nodes > 1 || id.LocalWorld == id.World, fieldLocalWorld, id.LocalWorld, "on a single node the same as", relate(fieldWorld, id.World)},
		// Every other node has at least one rank. LocalWorld <= World holds here, so
		// the difference cannot overflow.
		{id.Nodes-1 <= id.World-id.LocalWorld, fieldNodes, id.Nodes, "few enough that every other node has a rank of", relate(fieldWorld, id.World)},
	} {
		if !c.ok {
			rule := c.rule
			if c.detail != "" {
				rule += " " + c.detail
			}
			return wrong(name(c.field), c.value, rule)
		}
	}
	return nil
}
