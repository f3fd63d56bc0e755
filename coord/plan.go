package coord

import (
	"fmt"
	"slices"
	"strings"
)

// PlanDiffers says in what a plan differs from that of the job: its text is a hash, and behind it
// "name=value" for what it was made of (sampler.Stream.PlanSummary). Plans are equal where their
// texts are.
func PlanDiffers(plan, job string) string {
	mine, theirs := strings.Fields(plan), strings.Fields(job)
	var list []string
	for i := 1; i < min(len(mine), len(theirs)); i++ {
		name, a, is := strings.Cut(mine[i], "=")
		other, b, too := strings.Cut(theirs[i], "=")
		if is && too && name == other && a != b {
			list = append(list, fmt.Sprintf("%s %s, the job's %s", name, a, b))
		}
	}
	switch {
	case plan == job:
		return ""
	case len(list) > 0:
		return "its plan differs: " + strings.Join(list, "; ")
	case len(mine) > 1 && len(theirs) > 1 && slices.Equal(mine[1:], theirs[1:]):
		return "its plan differs: the blocks of the source are others, or the end of a long fingerprint"
	}
	return fmt.Sprintf("its plan is %.40q, the job's %.40q: data, seed, batch or shuffle differ", plan, job)
}

// PlanHash is the hash of a plan's text.
func PlanHash(plan string) string {
	hash, _, _ := strings.Cut(plan, " ")
	return hash
}
