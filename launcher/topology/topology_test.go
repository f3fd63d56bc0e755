package topology_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/headrace/headrace/launcher/topology"
)

// tree reads a file of testdata, whose README says how it is written.
func tree(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		path, content, ok := strings.Cut(strings.TrimSpace(line), " =")
		if !ok {
			t.Fatalf("%s: %q", name, line)
		}
		add(t, files, path, strings.ReplaceAll(strings.TrimSpace(content), "; ", "\n"))
	}
	return files
}

var sum = regexp.MustCompile(`\$([+-]\d+)?`)

func add(t *testing.T, files fstest.MapFS, path, content string) {
	t.Helper()
	before, rest, braces := strings.Cut(path, "{")
	if !braces {
		files[path] = &fstest.MapFile{Data: []byte(content + "\n")}
		return
	}
	list, after, _ := strings.Cut(rest, "}")
	words := strings.Split(list, ",")
	if cpus, err := topology.ParseCPUs(list); err == nil && !strings.Contains(path, "pci") {
		words = nil
		for _, cpu := range cpus {
			words = append(words, strconv.Itoa(cpu))
		}
	}
	for _, word := range words {
		add(t, files, before+word+after, sum.ReplaceAllStringFunc(content, func(s string) string {
			n, _ := strconv.Atoi(word)
			more, _ := strconv.Atoi(s[1:])
			return strconv.Itoa(n + more)
		}))
	}
}

func machine(t *testing.T, name string) *topology.Machine {
	t.Helper()
	m, err := topology.Read(tree(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMachine(t *testing.T) {
	for name, want := range map[string]string{
		"laptop":    "node 0: CPUs 0-7, 4 cores, 1 caches",
		"server":    "node 0: CPUs 0-31,64-95, 32 cores, 1 caches; node 1: CPUs 32-63,96-127, 32 cores, 1 caches",
		"amd":       "node 0: CPUs 0-31, 32 cores, 4 caches; node 1: CPUs 32-63, 32 cores, 4 caches; node 2: CPUs 64-95, 32 cores, 4 caches; node 3: CPUs 96-127, 32 cores, 4 caches",
		"container": "node 0: CPUs 4-12,20,68-76, 10 cores, 1 caches",
		"plain":     "node 0: CPUs 0-3, 4 cores, 1 caches",
	} {
		if got := machine(t, name).String(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

var (
	serverGPUs = []string{"0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0", "0000:5d:00.0", "0000:9a:00.0", "0000:ab:00.0", "0000:ba:00.0", "0000:db:00.0"}
	amdGPUs    = []string{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"}
)

func TestBindings(t *testing.T) {
	f := func(name string, mode topology.Mode, ranks int, gpus []string, want ...string) {
		t.Helper()
		bindings, err := machine(t, name).Bindings(mode, ranks, gpus)
		var got []string
		for _, b := range bindings {
			got = append(got, fmt.Sprintf("%s@%d", b.CPUs, b.Node))
			if (len(b.CPUs) == 0) != (b.Note != "") || strings.Contains(b.String(), "\n") {
				t.Errorf("%s: %+v", name, b)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, %s:\n got %q, %v\nwant %q", name, mode, got, err, want)
		}
	}
	f("server", topology.None, 2, serverGPUs[:2], "@-1", "@-1")
	const zero, one = "0-31,64-95@0", "32-63,96-127@1"
	f("server", topology.Node, 8, serverGPUs, zero, zero, zero, zero, one, one, one, one)
	f("server", topology.Socket, 2, serverGPUs[3:5], zero, one)
	f("server", topology.CoreComplex, 2, serverGPUs[3:5], zero, one)
	// Whole cores: the two hyperthreads of each are 64 apart.
	f("server", topology.Exclusive, 8, serverGPUs, "0-7,64-71@0", "8-15,72-79@0", "16-23,80-87@0", "24-31,88-95@0",
		"32-39,96-103@1", "40-47,104-111@1", "48-55,112-119@1", "56-63,120-127@1")
	// Only ranks that there are take part, whichever GPUs they have, in any spelling.
	f("server", topology.Exclusive, 3, []string{"00000000:DB:00.0", "0000:18:00.0", "0000:18:00.0"}, one, "0-15,64-79@0", "16-31,80-95@0")
	// 32 cores for 3 ranks: the first two have one more.
	f("server", topology.Exclusive, 3, serverGPUs[:3], "0-10,64-74@0", "11-21,75-85@0", "22-31,86-95@0")
	// Without GPUs ranks are spread over the nodes in blocks.
	f("server", topology.Node, 3, nil, zero, zero, one)

	f("amd", topology.Node, 4, amdGPUs, "32-63@1", "32-63@1", "96-127@3", "96-127@3")
	f("amd", topology.Socket, 4, amdGPUs, "0-63@1", "0-63@1", "64-127@3", "64-127@3")
	f("amd", topology.CoreComplex, 4, amdGPUs, "32-39@1", "40-47@1", "96-103@3", "104-111@3")
	f("amd", topology.CoreComplex, 5, slices.Repeat(amdGPUs[:1], 5), "32-39@1", "40-47@1", "48-55@1", "56-63@1", "32-39@1")
	// The node of one GPU is not known: that rank alone is not bound.
	f("amd", topology.Exclusive, 2, []string{"0000:05:00.0", "0000:02:00.0"}, "@-1", "32-63@1")
	f("amd", topology.Node, 1, []string{"0000:77:00.0"}, "@-1")

	// Nothing beyond the cpuset; the core of which one hyperthread is allowed is a
	// core. A GPU of the other socket has no CPU here.
	f("container", topology.Node, 1, serverGPUs[:1], "4-12,20,68-76@0")
	f("container", topology.Exclusive, 2, serverGPUs[:2], "4-8,68-72@0", "9-12,20,73-76@0")
	f("container", topology.Exclusive, 2, serverGPUs[3:5], "4-12,20,68-76@0", "@-1")

	f("laptop", topology.Exclusive, 2, nil, "0-3@0", "4-7@0")
	f("laptop", topology.Exclusive, 1, []string{"0000:01:00.0"}, "0-7@0")
	f("plain", topology.Exclusive, 4, slices.Repeat([]string{"0000:00:04.0"}, 4), "0@0", "1@0", "2@0", "3@0")
	f("plain", topology.CoreComplex, 1, nil, "0-3@0")
}

// The ranks of a node never share a core when they are exclusive, and have all of
// them between them.
func TestExclusiveIsAPartition(t *testing.T) {
	m := machine(t, "container")
	cores := make(map[int]int)
	for _, c := range m.CPUs {
		cores[c.ID] = c.Core
	}
	for ranks := 1; ranks <= 10; ranks++ {
		bindings, err := m.Bindings(topology.Exclusive, ranks, nil)
		if err != nil {
			t.Fatal(err)
		}
		owner := make(map[int]int)
		count := 0
		for i, b := range bindings {
			for _, cpu := range b.CPUs {
				if o, taken := owner[cores[cpu]]; taken && o != i {
					t.Errorf("%d ranks: core %d is of ranks %d and %d", ranks, cores[cpu], o, i)
				}
				owner[cores[cpu]] = i
				count++
			}
		}
		if count != len(m.CPUs) {
			t.Errorf("%d ranks have %d of %d CPUs", ranks, count, len(m.CPUs))
		}
	}
}

func TestBindingsRefuse(t *testing.T) {
	f := func(ranks int, gpus []string, parts ...string) {
		t.Helper()
		b, err := machine(t, "container").Bindings(topology.Exclusive, ranks, gpus)
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, %v, want %q", b, err, part)
			}
		}
	}
	f(11, nil, "10 cores", "11 ranks")
	f(2, serverGPUs[:1], "1 GPUs for 2 ranks")
	if m, err := topology.ParseMode("numa"); err == nil || !strings.Contains(err.Error(), "core-complex") {
		t.Errorf("%s, %v", m, err)
	}
	if m, err := topology.ParseMode(""); m != topology.None || err != nil {
		t.Errorf("%s, %v", m, err)
	}
}

// A machine that says nothing of its CPUs, or leaves none, is an error of one line.
func TestReadRefuses(t *testing.T) {
	for _, files := range []fstest.MapFS{
		{},
		{"sys/devices/system/cpu/online": {Data: []byte("x")}},
		{"sys/devices/system/cpu/online": {Data: []byte("0-3")}, "proc/self/status": {Data: []byte("Cpus_allowed_list:\t8\n")}},
		{"sys/devices/system/cpu/online": {Data: []byte("0-3")}, "proc/self/status": {Data: []byte("Cpus_allowed_list:\tall\n")}},
	} {
		if m, err := topology.Read(files); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, %v", m, err)
		}
	}
}

// A list that is read and written again is the same set.
func FuzzCPUs(f *testing.F) {
	for _, list := range []string{"0-3,8", "", "7", "3-1", "0-999999999", "5,1-2,1"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := topology.ParseCPUs(list)
		if err != nil {
			return
		}
		again, err := topology.ParseCPUs(cpus.String())
		if err != nil || !slices.Equal(cpus, again) || !slices.IsSorted(cpus) {
			t.Errorf("%q: %v, %v, %v", list, cpus, again, err)
		}
		for _, cpu := range cpus {
			if !cpus.Has(cpu) {
				t.Errorf("%q: %d is missing", list, cpu)
			}
		}
	})
}

// The machine of the test is one that can be, and all its CPUs are this process's.
func TestThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /sys")
	}
	m, err := topology.Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.CPUs) != runtime.NumCPU() || len(m.Nodes()) == 0 {
		t.Errorf("%s, for %d CPUs", m, runtime.NumCPU())
	}
	if b, err := m.Bindings(topology.Exclusive, 1, nil); err != nil || len(b[0].CPUs) == 0 {
		t.Errorf("%v, %v", b, err)
	}
}
