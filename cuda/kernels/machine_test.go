package kernels

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A machine is a child process with a host build of the kernels under the
// address and undefined-behaviour sanitizers: what a kernel must not touch ends it.
type machine struct {
	in     *bufio.Writer
	out    *bufio.Reader
	stderr *bytes.Buffer
	fibers bool
	every  int  // of many cases, decode one of so many
	fill   byte // what the work memory of zstd holds before
}

// thin is what is decoded of many cases: by fibers, which are slow, all of up to so many bytes, but
// only one of so many of the longer ones; the build for races, which takes four times as long, leaves out more. It is
// for what encoders wrote, where long cases differ from short ones in how often the same is done. Damaged chunks
// are never thinned: each may go another way.
func (m *machine) thin(cases []chunkCase, short, every int) []chunkCase {
	if !m.fibers {
		return cases
	}
	var out []chunkCase
	for i, c := range cases {
		if (c.size <= short && i%m.every == 0) || i%(every*m.every) == 0 {
			out = append(out, c)
		}
	}
	return out
}

// A host build. Compiling is most of the time of these tests: none has all sanitizers.
type hostBuild struct {
	name    string
	every   int
	compile []string
	link    []string // in a step of its own, if there is one
}

var (
	oneThread = hostBuild{"one thread", 1, []string{"-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}, nil}
	asFibers  = hostBuild{"fibers", 1, []string{"-O1", "-fsanitize=address", "-DHR_FIBERS"}, nil}
	// testdata/races.cc takes the place of the compiler's library.
	forRaces = hostBuild{
		"races", 3,
		[]string{"-O1", "-fsanitize=thread", "-DHR_FIBERS", "-DHR_RACES", "-Wno-maybe-uninitialized"},
		[]string{"-O2", "testdata/races.cc", "-Wl,--wrap=memcpy,--wrap=memset"},
	}
)

func (b hostBuild) fibers() bool { return slices.Contains(b.compile, "-DHR_FIBERS") }

// builds has one build of the driver at a time.
var builds sync.Mutex

// build compiles the driver, unless there is one of these sources: fuzzers run in several
// processes, some for two seconds, and compiling takes longer. more goes to the compiler.
func build(t testing.TB, kind hostBuild, more ...string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++: the host build of the kernels cannot be tested")
	}
	common := []string{"-std=c++17", "-g1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"}
	args := slices.Concat(kind.compile, more, common, []string{"testdata/driver.cc"})
	folder := driverFolder(t)
	path := filepath.Join(folder, fmt.Sprintf("driver-%s-%x", strings.ReplaceAll(kind.name, " ", "-"), readSources(t, compiler, args, kind.link)))
	now := time.Now()
	if os.Chtimes(path, now, now) == nil {
		return path
	}
	unfinished, err := os.MkdirTemp(folder, "unfinished")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	object, program := filepath.Join(unfinished, "driver.o"), filepath.Join(unfinished, "driver")
	if kind.link == nil {
		compile(t, compiler, args, "-o", program)
	} else {
		compile(t, compiler, args, "-c", "-o", object)
		compile(t, compiler, slices.Concat(common, kind.link, []string{object}), "-o", program)
	}
	if err := os.Rename(program, path); err != nil { // at once, for other processes
		t.Fatal(err)
	}
	return path
}

func compile(t testing.TB, compiler string, args []string, more ...string) {
	t.Helper()
	command := exec.Command(compiler, slices.Concat(args, more)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// driverFolder is where drivers are kept. Those that nobody has used for a week go.
func driverFolder(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	folder := filepath.Join(cache, "headrace-kernels-test")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.Remove(filepath.Join(folder, f.Name())) // another process may have done it
		}
	}
	return folder
}

// readSources is the hash of what the driver is made of. Since go test sees which files are
// read here, it does not take an old result for a new one.
func readSources(t testing.TB, compiler string, args ...[]string) []byte {
	t.Helper()
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%q\n", version, args)
	for _, pattern := range []string{"*.h", "*.cu", "*.cc", "testdata/*.cc"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(sum, "%s %d\n%s", f, len(text), text)
		}
	}
	return sum.Sum(nil)[:8]
}

func start(t testing.TB, kind hostBuild) *machine {
	t.Helper()
	m, end := startAs(t, exec.Command(build(t, kind)), kind)
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Errorf("the driver: %v\n%s", err, m.stderr)
		}
	})
	return m
}

// startAs starts a driver, and gives what ends it.
func startAs(t testing.TB, command *exec.Cmd, kind hostBuild) (m *machine, end func() error) {
	t.Helper()
	m = &machine{stderr: new(bytes.Buffer), fibers: kind.fibers(), every: kind.every, fill: 0xdd}
	command.Stderr = m.stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.in, m.out = bufio.NewWriterSize(in, 1<<16), bufio.NewReaderSize(out, 1<<16)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return m, func() error {
		_ = in.Close()
		return command.Wait()
	}
}

// onMachines runs a test on all host builds.
func onMachines(t *testing.T, test func(t *testing.T, m *machine)) {
	for _, kind := range []hostBuild{oneThread, asFibers, forRaces} {
		t.Run(kind.name, func(t *testing.T) { test(t, start(t, kind)) })
	}
}

const (
	kernelAssemble = iota
	kernelDecode
	kernelGather
	kernelLayout
	kernelZstd
	kernelInflate
	kernelCrc32c
)

// place is the address of a byte of a buffer, for the driver to translate.
func place(buffer int, offset int) uint64 { return uint64(buffer+1)<<40 + uint64(offset) }

// run sends a request and replaces the buffers by what became of them.
func (m *machine) run(t testing.TB, kernel, grid, block int, params []byte, buffers [][]byte) {
	t.Helper()
	var head []byte
	for _, n := range []int{kernel, grid, block, len(buffers)} {
		head = binary.LittleEndian.AppendUint64(head, uint64(n))
	}
	_, _ = m.in.Write(head) // the flush has the error
	for _, b := range buffers {
		_, _ = m.in.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
		_, _ = m.in.Write(b)
	}
	_, _ = m.in.Write(append(params, make([]byte, 64-len(params))...))
	err := m.in.Flush()
	for _, b := range buffers {
		if err == nil {
			_, err = io.ReadFull(m.out, b)
		}
	}
	if err != nil {
		t.Fatalf("the driver: %v\n%s", err, m.stderr)
	}
}
