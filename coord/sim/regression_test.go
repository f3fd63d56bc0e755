package sim

import (
	"os"
	"path/filepath"
	"testing"
)

// Scenarios that once broke an invariant do so no more. Each says at its top what was wrong.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := Parse(file)
		_ = file.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range Run(sc, Watch{}).Violations {
			t.Errorf("%s: %v", name, v)
		}
	}
}
