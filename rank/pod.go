package rank

import (
	"strconv"
	"strings"
)

// podClaim asks the sources that know pods only, and makes the process the only
// one of its pod.
func podClaim(lookup Lookup) (claim, error) {
	for _, s := range pods {
		c, found, err := s.readPod(lookup)
		if err != nil {
			return c, err
		}
		if !found {
			continue
		}
		if err := c.onlyProcess(lookup); err != nil {
			return c, err
		}
		c.id.Node, c.id.Nodes = c.id.Rank, c.id.World
		c.id.LocalWorld = 1
		return c, c.id.validate(c.name)
	}
	return alone(), nil
}

// readPod is read for a pod. The number of nodes alone is no claim, since users
// set it themselves, nor is an elastic one: "2:4" nodes have no fixed places.
func (s scheduler) readPod(lookup Lookup) (claim, bool, error) {
	v := reader{lookup: lookup}
	lo, hi, elastic := "", "", false
	if name, text := v.first(s.vars[fieldWorld]); name == petNodesVar {
		lo, hi, elastic = strings.Cut(text, ":")
	}
	if index, _ := v.first(s.vars[fieldRank]); index == "" || elastic && lo != hi {
		return claim{source: s}, false, nil
	}
	return s.read(func(name string) (string, bool) {
		if elastic && name == petNodesVar {
			return lo, true
		}
		return lookup(name)
	})
}

// onlyProcess refuses a pod that is to have several processes: who starts them
// has to tell them apart.
func (c *claim) onlyProcess(lookup Lookup) error {
	if c.source.name != Kubeflow {
		return nil
	}
	text, _ := lookup(petLocalVar)
	if n, err := strconv.Atoi(text); err == nil && n > 1 {
		return &Error{petLocalVar, text, "Kubeflow's pod is to have several processes, and " + localRankVar +
			" does not tell them apart: start them by torchrun or headrace launch, or pass rank and world explicitly"}
	}
	return nil
}

// checkPodRank holds RANK and WORLD_SIZE against the pod's own variables. The
// world counts nodes, or the processes that they are to have.
func (c *claim) checkPodRank(own *claim, lookup Lookup) error {
	text, _ := lookup(petLocalVar)
	local, err := strconv.Atoi(text)
	world := own.id.World
	if c.id.Rank == own.id.Rank && (world == c.id.World || err == nil && local > 0 && world/local == c.id.World && world%local == 0) {
		return nil
	}
	return own.conflict(c)
}
