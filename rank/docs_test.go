package rank

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/ranks.md names every variable that is read, and its order of sources is the
// table's.
func TestDocsNameEveryVariable(t *testing.T) {
	data, err := os.ReadFile("../docs/ranks.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, last := string(data), -1
	for _, s := range slices.Concat([]scheduler{torchrun}, schedulers, pods) {
		names := slices.Concat(slices.Concat(s.vars[:]...), s.perNode, s.job[:min(1, len(s.job))], s.step[:min(1, len(s.step))])
		for _, name := range append(names, s.head, s.restarts) {
			if name != "" && !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("%s: %s is not in docs/ranks.md", s.name, name)
			}
		}
		at := strings.Index(doc, "\n| "+s.name)
		if at <= last {
			t.Errorf("%s: its row is not in the order of precedence", s.name)
		}
		last = at
	}
}
