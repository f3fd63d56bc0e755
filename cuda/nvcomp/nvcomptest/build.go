package nvcomptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// Library builds the fake library for a test and gives its path.
func Library(t testing.TB, form Form) string {
	t.Helper()
	cudatest.Supported(t)
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "fake", "nvcomp.cc")
	if _, err := os.Stat(source); err != nil {
		t.Skipf("the source of the fake nvCOMP is not on this machine: %v", err)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprintf("libnvcomp.so.%d", form.Major))
	args := []string{
		"-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
		fmt.Sprintf("-DFORM=%d", form.Major), fmt.Sprintf("-DVERSION=%d", form.Version), "-o", path, source, "-ldl",
	}
	if form.NoAlignments {
		args = append(args, "-DNO_ALIGNMENTS")
	}
	if said, err := exec.Command(cudatest.Compiler(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("building the fake nvCOMP: %v\n%s", err, said)
	}
	return path
}
