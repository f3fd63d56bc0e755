//go:build linux

package cuda

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The operations have the same order in Go and in C.
func TestOpsMatchHeader(t *testing.T) {
	names := func(file, pattern string) (list []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Skipf("the sources are not on this machine: %v", err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			list = append(list, strings.ToLower(strings.ReplaceAll(m[1], "_", "")))
		}
		return list
	}
	inC := names("driver.h", `(?m)^\tHR_([A-Z_]+)(?: = 1)?,`)
	inGo := append(names("ops.go", `(?m)^\top([A-Z]\w+)`), names("ops.go", `(?m)^\tcmd([A-Z]\w+)`)...)
	for i, name := range inGo {
		if name == "count" {
			inGo[i] = "ops"
		}
	}
	if got, want := strings.Join(inGo, " "), strings.Join(inC, " "); got != want {
		t.Errorf("ops.go has\n%s\ndriver.h has\n%s", got, want)
	}
}
