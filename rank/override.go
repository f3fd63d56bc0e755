package rank

// Override holds what a program was told explicitly; nil is not told. It wins
// over the environment. Rank and World belong together: with both of them, and
// LocalRank and LocalWorld, the environment is not asked who the process is.
type Override struct {
	Rank, World           *int
	LocalRank, LocalWorld *int
	Node, Nodes           *int
	RunID                 *string
}

// explicit has the names of the arguments, for errors.
var explicit = scheduler{
	name: Explicit,
	vars: [fields][]string{{"rank"}, {"world size"}, {"local rank"}, {"local world size"}, {"node"}, {"nodes"}},
}

// Detect is the function Detect with explicit arguments. The source is Explicit
// where the rank is.
func (o Override) Detect(lookup func(string) (string, bool)) (Identity, string, error) {
	c, err := o.claim(lookup)
	if err != nil {
		return Identity{}, c.from(), err
	}
	if o.RunID != nil {
		c.id.RunID = *o.RunID
	}
	if err := ours(lookup, &c.id); err != nil {
		return Identity{}, c.from(), err
	}
	return c.id, c.from(), nil
}

// from is the name of the source, also of an environment that has none.
func (c *claim) from() string {
	if c.source.name == "" {
		return "environment"
	}
	return c.source.name
}

func (o Override) numbers() [fields]*int {
	return [fields]*int{o.Rank, o.World, o.LocalRank, o.LocalWorld, o.Node, o.Nodes}
}

// claim puts the arguments over what the environment says. Local and node
// numbers that are not given stay the environment's: they belong to the process,
// whatever rank it is told to be.
func (o Override) claim(lookup Lookup) (claim, error) {
	if (o.Rank == nil) != (o.World == nil) {
		if o.Rank == nil {
			return claim{source: explicit}, together(explicit.vars[fieldRank], "world size")
		}
		return claim{source: explicit}, together(explicit.vars[fieldWorld], "rank")
	}
	c := alone()
	if o.Rank == nil || o.LocalRank == nil || o.LocalWorld == nil {
		var err error
		if c, err = detect(lookup); err != nil {
			return c, err
		}
	}
	if o.Rank != nil {
		c.source = explicit
	}
	given := false
	for f, n := range o.numbers() {
		if n != nil {
			*c.id.numbers()[f], c.names[f], given = *n, explicit.vars[f][0], true
		}
	}
	if !given {
		return c, nil
	}
	return c, c.complete()
}
