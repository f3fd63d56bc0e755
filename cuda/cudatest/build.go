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
	"time"
)

// flags of the compiler. Without gnu-unique, each copy of the library has its own
// statics; without contraction, the kernels round as they do on a GPU.
var flags = []string{
	"-std=c++17", "-O2", "-g1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fno-gnu-unique",
	"-ffp-contract=off", "-Wall",
}

// Library builds the fake driver, unless the cache has it, and gives the path of a
// copy for this test. The test is skipped where there is no C++ compiler, and in
// builds without cgo.
func Library(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Dir(here)
	units := glob(t, filepath.Join(dir, "fake/*.cc"), filepath.Join(dir, "../kernels/*.cc"))
	headers := glob(t, filepath.Join(dir, "fake/*.h"), filepath.Join(dir, "../kernels/*.h"), filepath.Join(dir, "../kernels/*.cu"))
	return Build(t, "libcuda.so.1", flags, units, headers)
}

func glob(t testing.TB, patterns ...string) (names []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, files...)
	}
	return names
}

// Build compiles a shared library, unless the cache has it, and gives the path of a
// copy for this test: one that is loaded from a path of its own has its own state.
// The headers are what the units include. The test is skipped as by Library.
func Build(t testing.TB, name string, flags, units, headers []string) string {
	t.Helper()
	Supported(t)
	built := cached(t, flags, units, headers)
	path := filepath.Join(t.TempDir(), name)
	if err := copyFile(path, built); err != nil {
		t.Fatal(err)
	}
	return path
}

// cached gives the path of the built library. Its name has the hash of all that it
// was made of, and it appears in one step, so processes may build it at once.
func cached(t testing.TB, flags, units, headers []string) string {
	t.Helper()
	compiler := Compiler(t)
	dir := folder(t)
	path := filepath.Join(dir, hash(t, compiler, flags, units, headers)+".so")
	defer lock(t, path+".lock")()
	now := time.Now()
	if os.Chtimes(path, now, now) == nil {
		return path
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer func() { _ = os.Remove(part) }()
	said, err := exec.Command(compiler, slices.Concat(flags, []string{"-o", part}, units, []string{"-ldl"})...).CombinedOutput()
	if err != nil {
		t.Fatalf("building %s: %v\n%s", filepath.Base(units[0]), err, said)
	}
	if err := os.Rename(part, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// folder is where libraries are kept. Those that nobody has used for a week go.
func folder(t testing.TB) string {
	t.Helper()
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	dir := filepath.Join(root, "headrace-fakecuda")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range glob(t, filepath.Join(dir, "*")) {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.Remove(name) // another process may have done it
		}
	}
	return dir
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

// hash is of everything that goes in.
func hash(t testing.TB, compiler string, flags, units, headers []string) string {
	t.Helper()
	if !slices.ContainsFunc(units, func(name string) bool { _, err := os.Stat(name); return err == nil }) {
		t.Skip("the sources of the fake libraries are not on this machine")
	}
	h := sha256.New()
	_, _ = fmt.Fprintln(h, compiler, flags)
	for _, name := range slices.Concat(units, headers) {
		hashFile(t, h, name)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
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
