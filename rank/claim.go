package rank

// claim is what one source says about this process. A LocalWorld or Nodes of 0
// is not told, and so is a number without a name.
type claim struct {
	source scheduler
	id     Identity
	names  [fields]string // variables that gave the numbers
	daemon bool
}

// read asks one source. found is false where it says nothing about this process.
func (s scheduler) read(lookup Lookup) (c claim, found bool, err error) {
	v := reader{lookup: lookup}
	c = claim{source: s, daemon: s.daemon}
	for f, n := range c.id.numbers() {
		*n, c.names[f] = v.number(s.vars[f])
	}
	haveRank, haveWorld := c.names[fieldRank] != "", c.names[fieldWorld] != ""
	switch {
	case !haveRank && !haveWorld, s.counted && !haveWorld:
		return c, false, nil
	case !haveRank:
		return c, false, together(s.vars[fieldRank], c.names[fieldWorld])
	case !haveWorld:
		return c, false, together(s.vars[fieldWorld], c.names[fieldRank])
	}
	c.id.RunID = s.runID(&v)
	c.localSize(&v)
	return c, true, v.err
}

func together(missing []string, there string) error {
	return &Error{missing[0], "", there + " is; they belong together"}
}

// runID is the name of the job, with its step where the source has steps: two
// steps of one allocation are two jobs to us.
func (s scheduler) runID(v *reader) string {
	_, id := v.first(s.job)
	if _, step := v.first(s.step); id != "" && step != "" {
		return id + "." + step
	}
	return id
}

// localSize finds the number of ranks on this node for sources that give it as a
// list of all nodes, or not at all.
func (c *claim) localSize(v *reader) {
	name, list := v.first(c.source.perNode)
	switch {
	case c.names[fieldLocalRank] == "" || c.names[fieldLocalWorld] != "":
	case name != "" && c.names[fieldNode] != "":
		n, err := countOf(list, c.id.Node)
		if err != nil {
			v.fail(&Error{name, list, err.Error()})
		}
		c.id.LocalWorld, c.names[fieldLocalWorld] = n, name
	case len(c.source.vars[fieldLocalWorld]) == 0 && c.id.Nodes > 0 && c.id.World%c.id.Nodes == 0:
		c.id.LocalWorld, c.names[fieldLocalWorld] = c.id.World/c.id.Nodes, c.names[fieldWorld]
	}
}

// same reports whether two sources tell the same of this process.
func (c *claim) same(o *claim) bool { return c.id.Rank == o.id.Rank && c.id.World == o.id.World }

// nodes is the number of nodes as far as it is told: 1 where it is not.
func (c *claim) nodes() int {
	switch {
	case c.id.Nodes > 0:
		return c.id.Nodes
	case c.id.LocalWorld > 0:
		return (c.id.World-1)/c.id.LocalWorld + 1
	}
	return 1
}

// started reports whether outer can be about the process that started this one:
// a launcher, or the daemon of one, of which there is one a node at most. Such
// variables are inherited and no contradiction. Where there are as many of them
// as ranks the two could as well be about the same process; then only a source
// whose variables can have come from a daemon alone is believed.
func (c *claim) started(outer *claim) bool {
	if outer.id.World == 1 {
		return true // one task, a shell for example, that started everything
	}
	return outer.id.LocalWorld == 1 && outer.id.World <= c.nodes() && (outer.id.World < c.id.World || c.daemon)
}

// conflict is the error for two sources that cannot both be right.
func (c *claim) conflict(o *claim) error {
	return &Error{c.names[fieldRank], itoa(c.id.Rank), "by " + c.source.name + ", of " + relate(c.names[fieldWorld], c.id.World) +
		", but " + o.source.name + " says " + relate(o.names[fieldRank], o.id.Rank) + " of " + relate(o.names[fieldWorld], o.id.World) +
		", and neither can be about a launcher that started the other: unset the variables that are left over, run one launcher a node, or pass rank and world explicitly"}
}

// fill takes what is not told from a source that agrees.
func (c *claim) fill(o *claim) {
	if c.names[fieldLocalWorld] == "" && o.names[fieldLocalWorld] != "" && o.names[fieldLocalRank] != "" {
		c.take(o, fieldLocalWorld)
		if c.names[fieldLocalRank] == "" {
			c.take(o, fieldLocalRank)
		}
	}
	if c.names[fieldNode] == "" && c.names[fieldNodes] == "" && o.names[fieldNode] != "" && o.names[fieldNodes] != "" {
		c.take(o, fieldNode)
		c.take(o, fieldNodes)
	}
	if c.id.RunID == "" {
		c.id.RunID = o.id.RunID
	}
}

func (c *claim) take(o *claim, f field) {
	*c.id.numbers()[f], c.names[f] = *o.id.numbers()[f], o.names[f]
}

// name is the variable for a number, the source's first where none is set.
func (c *claim) name(f field) string {
	if c.names[f] == "" && len(c.source.vars[f]) > 0 {
		return c.source.vars[f][0]
	}
	if c.names[f] == "" {
		return torchrun.vars[f][0]
	}
	return c.names[f]
}

// complete derives what no source tells, as far as it follows, and checks all of
// it. Without local numbers a job of RANK and WORLD_SIZE alone is on one node;
// without node numbers all nodes have as many ranks as this one.
func (c *claim) complete() error {
	haveRank, haveSize := c.names[fieldLocalRank] != "", c.names[fieldLocalWorld] != ""
	switch {
	case haveRank && !haveSize:
		return together([]string{c.name(fieldLocalWorld)}, c.names[fieldLocalRank])
	case haveSize && !haveRank:
		return together([]string{c.name(fieldLocalRank)}, c.names[fieldLocalWorld])
	case !haveRank:
		if err := c.oneNode(); err != nil {
			return err
		}
	}
	if err := c.completeNodes(); err != nil {
		return err
	}
	return c.id.validate(c.name)
}

func (c *claim) oneNode() error {
	several := c.names[fieldNodes] != "" && c.id.Nodes != 1
	unknown := c.names[fieldNodes] == "" && c.daemon && c.source.name != Torchrun && c.id.World != 1
	if several || unknown {
		return &Error{c.name(fieldLocalRank), "", "the job may have several nodes (" + relate(c.name(fieldWorld), c.id.World) + "); set it and " + c.name(fieldLocalWorld)}
	}
	c.id.LocalRank, c.id.LocalWorld = c.id.Rank, c.id.World
	return nil
}

func (c *claim) completeNodes() error {
	haveNode, haveNodes := c.names[fieldNode] != "", c.names[fieldNodes] != ""
	if haveNode && haveNodes {
		return nil
	}
	if haveNode != haveNodes && c.source.name == Torchrun {
		if haveNode {
			return together([]string{nodesVar}, c.names[fieldNode])
		}
		return together([]string{nodeVar}, c.names[fieldNodes])
	}
	told := c.id
	if err := c.evenNodes(); err != nil {
		return err
	}
	if haveNode {
		c.id.Node = told.Node
	}
	if haveNodes {
		c.id.Nodes = told.Nodes
	}
	return nil
}

// evenNodes fills in the nodes of a job in which all have as many ranks. Numbers
// that are wrong in themselves are left to validate. Ranks are dealt out node by
// node, or, where the local rank shows it, one to each node in turn.
func (c *claim) evenNodes() error {
	id := &c.id
	id.Node, id.Nodes = 0, 1
	if id.LocalWorld < 1 || id.LocalWorld >= id.World {
		return nil
	}
	if id.World%id.LocalWorld != 0 {
		return &Error{c.name(fieldNode), "", relate(c.name(fieldWorld), id.World) + " is not a multiple of " +
			relate(c.name(fieldLocalWorld), id.LocalWorld) + ", so the node does not follow; set it and " + c.name(fieldNodes)}
	}
	id.Node, id.Nodes = id.Rank/id.LocalWorld, id.World/id.LocalWorld
	if id.LocalRank != id.Rank%id.LocalWorld && id.LocalRank == id.Rank/id.Nodes {
		id.Node = id.Rank % id.Nodes
	}
	return nil
}
