package cudatest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// flags of the compiler. Without gnu-unique, each copy of the library has its own
// statics; without contraction, the kernels round as they do on a GPU.
var flags = []string{
	"-std=c++17", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fno-gnu-unique",
	"-ffp-contract=off", "-Wall",
}

// Library builds the fake driver, unless the cache has it, and gives the path of a
// copy for this test. The test is skipped where there is no C++ compiler, and in
// builds without cgo.
func Library(t testing.TB) string {
	t.Helper()
	Supported(t)
	built := cached(t)
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := copyFile(path, built); err != nil {
		t.Fatal(err)
	}
	return path
}

// cached gives the path of the built library. Its name has the hash of all that it
// was made of, and it appears in one step, so processes may build it at once.
func cached(t testing.TB) string {
	t.Helper()
	compiler := Compiler(t)
	units, hash := sources(t, compiler)
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	dir := filepath.Join(root, "headrace-fakecuda")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, hash+".so")
	defer lock(t, path+".lock")()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer func() { _ = os.Remove(part) }()
	said, err := exec.Command(compiler, slices.Concat(flags, []string{"-o", part}, units, []string{"-ldl"})...).CombinedOutput()
	if err != nil {
		t.Fatalf("building the fake driver: %v\n%s", err, said)
	}
	if err := os.Rename(part, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Compiler is the C++ compiler of this machine; without one the test is skipped.
func Compiler(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"g++", "clang++", "c++"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no C++ compiler (g++) to build the fake libraries with")
	return ""
}

// sources lists the units to compile, and hashes everything that goes in.
func sources(t testing.TB, compiler string) (units []string, hash string) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Dir(here)
	if _, err := os.Stat(filepath.Join(dir, "fake")); err != nil {
		t.Skipf("the sources of the fake driver are not on this machine: %v", err)
	}
	h := sha256.New()
	_, _ = fmt.Fprintln(h, compiler, flags)
	for _, pattern := range []string{"fake/*.cc", "fake/*.h", "../kernels/*.cc", "../kernels/*.h", "../kernels/*.cu"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			hashFile(t, h, name)
			if filepath.Ext(name) == ".cc" {
				units = append(units, name)
			}
		}
	}
	return units, hex.EncodeToString(h.Sum(nil)[:12])
}

func hashFile(t testing.TB, h io.Writer, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(h, filepath.Base(name), len(text))
	_, _ = h.Write(text)
}

// lock lets one process at a time build; the result unlocks.
func lock(t testing.TB, path string) func() {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}
