package kernels

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A machine is a child process with a host build of the kernels under the
// address and undefined-behaviour sanitizers: what a kernel must not touch ends it.
type machine struct {
	in     *bufio.Writer
	out    *bufio.Reader
	stderr *bytes.Buffer
}

// machines are the two host builds (see simt.h): one thread a block, and fibers.
var machines = struct {
	sync.Mutex
	dir   string
	built map[string]string
}{built: map[string]string{}}

func TestMain(m *testing.M) {
	code := m.Run()
	if machines.dir != "" {
		_ = os.RemoveAll(machines.dir)
	}
	os.Exit(code)
}

// build compiles the driver once a test run.
func build(t testing.TB, flag string) string {
	t.Helper()
	machines.Lock()
	defer machines.Unlock()
	if path, ok := machines.built[flag]; ok {
		return path
	}
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++: the host build of the kernels cannot be tested")
	}
	if machines.dir == "" {
		if machines.dir, err = os.MkdirTemp("", "kernels"); err != nil {
			t.Fatal(err)
		}
	}
	readSources(t)
	path := filepath.Join(machines.dir, "driver"+flag)
	// Compiling is most of the time of these tests: neither build has everything.
	sanitizers := []string{"-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
	if flag == "-DHR_FIBERS" {
		sanitizers = []string{"-O1", "-fsanitize=address"}
	}
	command := exec.Command(compiler, append(sanitizers, "-std=c++17", "-g1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
		flag, "testdata/driver.cc", "-o", path)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	machines.built[flag] = path
	return path
}

// readSources reads what the compiler will read, so that go test knows of it and
// does not take an old result for a new one.
func readSources(t testing.TB) {
	t.Helper()
	for _, pattern := range []string{"*.h", "*.cu", "*.cc", "testdata/*.cc"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func start(t testing.TB, flag string) *machine {
	t.Helper()
	command := exec.Command(build(t, flag))
	m := &machine{stderr: new(bytes.Buffer)}
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
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if err := command.Wait(); err != nil {
			t.Errorf("the driver: %v\n%s", err, m.stderr)
		}
	})
	return m
}

// onMachines runs a test on both host builds. (HR_THREAD is no switch: without
// HR_FIBERS a block is one thread.)
func onMachines(t *testing.T, test func(t *testing.T, m *machine)) {
	for name, flag := range map[string]string{"one thread": "-DHR_THREAD", "fibers": "-DHR_FIBERS"} {
		t.Run(name, func(t *testing.T) { test(t, start(t, flag)) })
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
