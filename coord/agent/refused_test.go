package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// An agent that the job does not take ends with the reason, whether or not it has ranks:
// whoever has started it can tell.
func TestRefusedAgentEnds(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	cfg := Config{Job: "other", Name: "w", Profile: "fast", Key: []byte(jobKey), Witness: true, Contacts: []string{a.Address()}}
	err := Serve(ctx, cfg, filepath.Join(t.TempDir(), "s"), func(Serving) error { return nil })
	if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), `it belongs to job "other"`) {
		t.Errorf("served: %v", err)
	}
}
