package agent

import (
	"slices"

	"github.com/headrace/headrace/coord"
)

// mostFound bounds the addresses of a view that an evicted agent asks for the job, as the
// launcher bounds its contacts: thousands may be evicted at a time.
const mostFound = 4

// contacts are the configured ones, and those that were found in the last view.
func (a *Agent) contacts() []string {
	list := slices.Clone(a.config.Contacts)
	for _, address := range a.found {
		if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list
}

// addresses are some of a view's: voters first, who know whom to ask, then other members. An
// earlier part of this agent may be one of them, at its own address.
func addresses(v *coord.View, self coord.ID, own string) []string {
	var voters, others []string
	for i := range v.Members {
		switch m := &v.Members[i]; {
		case m.ID == self || m.Address == own:
		case slices.Contains(v.Voters, m.ID):
			voters = append(voters, m.Address)
		default:
			others = append(others, m.Address)
		}
	}
	list := draw(voters, mostFound)
	return append(list, draw(others, mostFound-len(list))...)
}
