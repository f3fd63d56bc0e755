package nvcomptest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// Library builds the fake library, unless the cache has it, and gives the path of a
// copy for this test.
func Library(t testing.TB, form Form) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	flags := []string{
		"-std=c++17", "-O1", "-g1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fno-gnu-unique",
		"-Wall", "-Wextra", "-Werror", "-Wno-unused",
		fmt.Sprintf("-DFORM=%d", form.Major), fmt.Sprintf("-DVERSION=%d", form.Version),
	}
	if form.NoAlignments {
		flags = append(flags, "-DNO_ALIGNMENTS")
	}
	source := filepath.Join(filepath.Dir(here), "fake", "nvcomp.cc")
	return cudatest.Build(t, fmt.Sprintf("libnvcomp.so.%d", form.Major), flags, []string{source}, nil)
}
