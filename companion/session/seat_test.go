package session

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// An agent that is named and does not answer may have a job: a rank goes on beside it only
// where it was said that it joins none.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	gone := rank.Identity{World: 1, LocalWorld: 1, Nodes: 1, Agent: filepath.Join(t.TempDir(), "gone")}
	for _, c := range []struct {
		coord string
		id    rank.Identity
		kind  error
		words string
	}{
		{"auto", gone, nd.ErrIO, `coord="off"`},
		{"require", gone, nd.ErrIO, gone.Agent},
		{"off", gone, nil, ""},
		{"auto", rank.Identity{World: 1}, nil, ""},
		{"require", rank.Identity{World: 1}, nd.ErrUnsupported, "HEADRACE_AGENT is not set"},
	} {
		s, err := findSeat(t.Context(), &request{Loader: &loaderSpec{Coord: c.coord, Mode: "lockstep"}}, c.id)
		if s != nil || !errors.Is(err, c.kind) || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s with %q: %v, %v", c.coord, c.id.Agent, s, err)
		}
	}
}
