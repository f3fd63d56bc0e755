package coord_test

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/sampler"
)

// Who is refused is told what to change, not two hashes.
func TestPlanDiffers(t *testing.T) {
	stream := func(change func(*sampler.Stream)) string {
		s := sampler.Stream{Fingerprint: "f00d", N: 100, Global: 8, Seed: 1, Shuffle: true}
		change(&s)
		return s.PlanSummary()
	}
	job := stream(func(*sampler.Stream) {})
	for want, plan := range map[string]string{
		"":                                      job,
		"its plan differs: seed 7, the job's 1": stream(func(s *sampler.Stream) { s.Seed = 7 }),
		"its plan differs: data beef, the job's f00d; n 90, the job's 100":                   stream(func(s *sampler.Stream) { s.Fingerprint, s.N = "beef", 90 }),
		"its plan differs: batch 16, the job's 8":                                            stream(func(s *sampler.Stream) { s.Global = 16 }),
		"its plan differs: shuffle false, the job's true":                                    stream(func(s *sampler.Stream) { s.Shuffle = false }),
		`its plan is "p", the job's "` + job[:40] + `": data, seed, batch or shuffle differ`: "p",
	} {
		if got := coord.PlanDiffers(plan, job); got != want {
			t.Errorf("%s: %q, want %q", plan, got, want)
		}
	}
	blocks, err := sampler.NewBlocks([]int64{50, 50})
	if err != nil {
		t.Fatal(err)
	}
	if got := coord.PlanDiffers(stream(func(s *sampler.Stream) { s.Blocks = blocks }), job); !strings.Contains(got, "blocks") {
		t.Errorf("blocks: %q", got)
	}
	if got := coord.PlanHash(job); len(got) != 32 || coord.PlanHash("p") != "p" {
		t.Errorf("hash %q", got)
	}
}

// The longest summary is taken as a plan.
func TestPlanSummaryFits(t *testing.T) {
	const most = 1<<63 - 1
	s := sampler.Stream{Fingerprint: strings.Repeat("\u00fc", 500), N: most, Global: most, Seed: 1<<64 - 1, Tail: sampler.TailMask, Block: most, Window: most}
	if n := len(s.PlanSummary()); n > coord.MaxText {
		t.Errorf("%d bytes, at most %d are taken", n, coord.MaxText)
	}
}
