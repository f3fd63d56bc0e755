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
	for _, c := range [...]struct {
		ok           bool
		name         string
		value        int
		rule, detail string
	}{
		{id.World >= 1, worldVar, id.World, "at least 1", ""},
		{id.Rank >= 0, rankVar, id.Rank, "at least 0", ""},
		{id.Rank < id.World, rankVar, id.Rank, "below", relate(worldVar, id.World)},
		{id.LocalWorld >= 1, localWorldVar, id.LocalWorld, "at least 1", ""},
		{id.LocalWorld <= id.World, localWorldVar, id.LocalWorld, "at most", relate(worldVar, id.World)},
		{id.LocalRank >= 0, localRankVar, id.LocalRank, "at least 0", ""},
		{id.LocalRank < id.LocalWorld, localRankVar, id.LocalRank, "below", relate(localWorldVar, id.LocalWorld)},
		{id.Nodes >= 1, nodesVar, id.Nodes, "at least 1", ""},
		{id.Node >= 0, nodeVar, id.Node, "at least 0", ""},
		{id.Node < id.Nodes, nodeVar, id.Node, "below", relate(nodesVar, id.Nodes)},
		{id.Nodes > 1 || id.LocalWorld == id.World, localWorldVar, id.LocalWorld, "on a single node the same as", relate(worldVar, id.World)},
		// Every other node has at least one rank. LocalWorld <= World holds here, so
		// the difference cannot overflow.
		{id.Nodes-1 <= id.World-id.LocalWorld, nodesVar, id.Nodes, "few enough that every other node has a rank of", relate(worldVar, id.World)},
	} {
		if !c.ok {
			rule := c.rule
			if c.detail != "" {
				rule += " " + c.detail
			}
			return wrong(c.name, c.value, rule)
		}
	}
	return nil
}
