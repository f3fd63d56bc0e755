package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
)

// counts is a machine with given devices.
type counts struct{ cpus, gpus, xpus int }

func (c counts) CPUs() int { return c.cpus }
func (c counts) GPUs() int { return c.gpus }
func (c counts) XPUs() int { return c.xpus }

// environ is an environment for Parse.
type environ map[string]string

func (e environ) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func parsed(t *testing.T, env environ, args ...string) Spec {
	t.Helper()
	s, err := parse(args, env.lookup, counts{cpus: 32, gpus: 2})
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return s
}

func fails(t *testing.T, env environ, want string, args ...string) {
	t.Helper()
	_, err := parse(args, env.lookup, counts{cpus: 32})
	if !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q: %v, want %q", args, err, want)
	}
}

// Every flag in both spellings, with = and as two words, and from its variable.
func TestFlags(t *testing.T) {
	for _, o := range options() {
		if o.name == "logs-specs" || o.name == "print-completion" || o.name == "help" || o.name == "version" {
			continue
		}
		value := map[string]string{
			"nnodes": "1:1", "nproc-per-node": "3", "rdzv-backend": "c10d", "rdzv-endpoint": "h:1", "rdzv-id": "x", "rdzv-conf": "timeout=5", "node-rank": "0",
			"master-addr": "h", "master-port": "7", "local-addr": "h", "max-restarts": "2", "monitor-interval": "2", "shutdown-timeout": "1.5", "signals-to-handle": "SIGUSR1",
			"exit-timeout": "4", "start-method": "fork", "event-log-handler": "x", "role": "x", "numa-binding": "node", "metrics-port": "0", "log-dir": "x",
			"redirects": "3", "tee": "0:1", "local-ranks-filter": "0", "duplicate-stdout-filters": "a,b", "duplicate-stderr-filters": "a", "log-line-prefix-template": "x",
			"live-contact": "localhost:1", "live-port": "7", "live-timeout": "3", "live-profile": "fast", "key-file": "k",
		}[o.name]
		if (value == "") != (o.value == "") {
			t.Fatalf("the test has no value for --%s", o.name)
		}
		underscored := strings.ReplaceAll(o.name, "-", "_")
		ways := [][]string{{"--" + o.name}, {"--" + underscored}}
		if value != "" {
			ways = [][]string{{"--" + o.name, value}, {"--" + underscored, value}, {"--" + o.name + "=" + value}, {"--" + underscored + "=" + value}}
		}
		if o.short != 0 && value != "" {
			ways = append(ways, []string{"-" + string(o.short), value}, []string{"-" + string(o.short) + value}, []string{"-" + string(o.short) + "=" + value})
		} else if o.short != 0 {
			ways = append(ways, []string{"-" + string(o.short)})
		}
		for i := range ways {
			if strings.HasPrefix(o.name, "live-") {
				ways[i] = append(ways[i], "--live")
			}
		}
		want := describeSpec(parsed(t, nil, append(ways[0], "s")...))
		if (want == describeSpec(parsed(t, nil, "s")) || want == describeSpec(parsed(t, nil, "--live", "s")) && o.name != "live") && o.name != "nnodes" && o.name != "node-rank" {
			t.Errorf("--%s changes nothing", o.name)
		}
		for _, way := range ways[1:] {
			if got := describeSpec(parsed(t, nil, append(way, "s")...)); got != want {
				t.Errorf("%q gives\n%s, want\n%s", way, got, want)
			}
		}
		if o.env != "" {
			if value == "" {
				value = "1"
			}
			if got := describeSpec(parsed(t, environ{o.env: value}, "s")); got != want {
				t.Errorf("%s=%s gives\n%s, want\n%s", o.env, value, got, want)
			}
		}
	}
}

// describeSpec leaves out what is random, and where the key was named.
func describeSpec(s Spec) string {
	if s.Standalone {
		s.RunID = "uuid"
	}
	s.keyName = ""
	return fmt.Sprintf("%+v", s)
}

// The command line wins over the variable, and of a flag that is there twice the last
// one does.
func TestPrecedence(t *testing.T) {
	s := parsed(t, environ{"PET_NPROC_PER_NODE": "many", "PET_ROLE": "env", "PET_STANDALONE": "0"}, "--nproc-per-node=2", "--nproc_per_node", "5", "s")
	if s.Workers != 5 || s.Role != "env" || s.Standalone {
		t.Errorf("%+v", s)
	}
}

// Prefixes: torchrun's flags where one fits, ours never; nothing behind the script.
func TestPrefixes(t *testing.T) {
	if s := parsed(t, nil, "--nproc_per", "2", "--max-r=1", "--stand", "s", "--nproc", "9"); s.Workers != 2 || s.MaxRestarts != 1 || !s.Standalone || !slices.Equal(s.Args, []string{"--nproc", "9"}) {
		t.Errorf("%+v", s)
	}
	fails(t, nil, "--mo is ambiguous: --monitor-interval, --module", "--mo", "0.9", "s")
	fails(t, nil, "unknown flag --comp: did you mean --companion?", "--comp", "s")
	fails(t, nil, "unknown flag --nprocs: did you mean --nproc-per-node?", "--nprocs", "2", "s")
	fails(t, nil, "unknown flag --lr: flags of the script go behind it", "--lr", "0.1", "s")
	fails(t, nil, "unknown flag --metrics", "--metrics", "0", "s")
	if s := parsed(t, nil, "--companion", "s"); !s.Companion {
		t.Error("--companion")
	}
}

// The script is the first word that is no flag; -- ends the flags.
func TestScript(t *testing.T) {
	for _, c := range []struct{ args, script, rest string }{
		{"a b -c", "a", "b -c"},
		{"-- -a b", "-a", "b"},
		{"--tee 3 -- a --", "a", "--"},
		{"-m a --tee", "a", "--tee"},
		{"- x", "-", "x"},
	} {
		s := parsed(t, nil, strings.Fields(c.args)...)
		if s.Script != c.script || strings.Join(s.Args, " ") != c.rest {
			t.Errorf("%q: script %q, arguments %q", c.args, s.Script, s.Args)
		}
	}
	s := parsed(t, nil, "--role", "a b", "--rdzv-id=", "--rdzv-id", "x", "s", "a b", "")
	if s.Role != "a b" || !slices.Equal(s.Args, []string{"a b", ""}) {
		t.Errorf("%+v", s)
	}
}

// Bad values: kind ErrConfig, which is exit code 2, and one line that names them all.
func TestBadFlags(t *testing.T) {
	for want, args := range map[string]string{
		"unknown flag --nope":                      "--nope s",
		"unknown flag -x":                          "-x s",
		"the script is missing":                    "--tee 3",
		"--tee needs a value":                      "--tee --role x s",
		"--role needs a value":                     "--role",
		"--standalone takes no value":              "--standalone=1 s",
		`--nproc-per-node is "many"`:               "--nproc-per-node many s",
		"--nproc-per-node is gpu, but":             "--nproc-per-node gpu s",
		"--nproc-per-node is xpu, but":             "--nproc-per-node xpu s",
		"--nproc-per-node is 0":                    "--nproc-per-node 0 s",
		"--nnodes is 3:2":                          "--nnodes 3:2 s",
		`--nnodes is "x"`:                          "--nnodes x s",
		"--nnodes is 0:0":                          "--nnodes 0 s",
		"needs --rdzv-backend c10d":                "--nnodes 1:2 s",
		"--node-rank is 2":                         "--nnodes 2 --node-rank 2 s",
		"--node-rank is -1: at least 0":            "--node-rank -1 s",
		"--max-restarts is -1":                     "--max-restarts -1 s",
		`--max-restarts is "x"`:                    "--max-restarts x s",
		"--monitor-interval is 0":                  "--monitor-interval 0 s",
		`--shutdown-timeout is "-1"`:               "--shutdown-timeout -1 s",
		`--shutdown-timeout is "nan"`:              "--shutdown-timeout nan s",
		"etcd is not supported":                    "--rdzv-backend etcd-v2 s",
		`--rdzv-backend is "x"`:                    "--rdzv-backend x s",
		"--rdzv-endpoint is missing":               "--rdzv-backend c10d --nnodes 2 s",
		`--rdzv-endpoint is "h:x"`:                 "--rdzv-endpoint h:x s",
		`--rdzv-conf has "x"`:                      "--rdzv-conf x s",
		"--rdzv-id is empty":                       "--rdzv-id= s",
		"--rdzv-id has 201 bytes: at most 200":     "--rdzv-id " + strings.Repeat("x", 201) + " s",
		"--standalone is a job of one node":        "--standalone --nnodes 2 s",
		"-m and --no-python exclude each other":    "-m --no-python s",
		`--start-method is "x"`:                    "--start-method x s",
		"--logs-specs names a Python entry point":  "--logs-specs x s",
		`--signals-to-handle has "SIGX"`:           "--signals-to-handle SIGTERM,SIGX s",
		"--signals-to-handle has SIGKILL":          "--signals-to-handle SIGKILL s",
		"--signals-to-handle has SIGCHLD":          "--signals-to-handle SIGCHLD s",
		`--redirects is "4"`:                       "--redirects 4 s",
		`--tee is "0:9"`:                           "--tee 0:9 s",
		`--tee is "1:1,x:1"`:                       "--tee 1:1,x:1 s",
		"--local-ranks-filter names a rank":        "--local-ranks-filter 1 s",
		`--local-ranks-filter is "x"`:              "--local-ranks-filter x s",
		`--numa-binding is "x"`:                    "--numa-binding x s",
		"--master-port is 70000":                   "--master-port 70000 s",
		"--metrics-port is 70000":                  "--metrics-port 70000 s",
		`--print-completion is "fish"`:             "--print-completion fish",
		"--tee is \"9\": 0 to 3":                   "--tee 9 --nnodes 0 s",
		"0 < MIN <= MAX is needed; --max-restarts": "--nnodes 0 --max-restarts -1 s",
	} {
		fails(t, nil, want, strings.Fields(args)...)
	}
	fails(t, environ{"PET_NNODES": "x"}, `PET_NNODES is "x"`, "s")
	fails(t, environ{"PET_STANDALONE": "yes"}, `PET_STANDALONE is "yes"`, "s")
}

// Numbers of workers by what the machine has, and by what of it CUDA may use.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		value, visible string
		m              counts
		want           int
	}{
		{"gpu", "-", counts{32, 2, 0}, 2},
		{"auto", "-", counts{32, 2, 0}, 2},
		{"cpu", "-", counts{32, 2, 0}, 32},
		{"auto", "-", counts{32, 0, 0}, 32},
		{"auto", "-", counts{32, 0, 3}, 3},
		{"xpu", "-", counts{32, 2, 3}, 3},
		{"gpu", "1", counts{32, 2, 0}, 1},
		{"auto", "", counts{32, 2, 0}, 32},
		{"gpu", "0,1,-1,2", counts{32, 4, 0}, 2},
		{"gpu", "MIG-a,MIG-b,MIG-c", counts{32, 1, 0}, 3},
	} {
		env := environ{}
		if c.visible != "-" {
			env["CUDA_VISIBLE_DEVICES"] = c.visible
		}
		s, err := parse([]string{"--nproc-per-node", c.value, "s"}, env.lookup, c.m)
		if err != nil || s.Workers != c.want {
			t.Errorf("%+v: %d workers (%v)", c, s.Workers, err)
		}
	}
}

// What --standalone and the static backend make of the other flags.
func TestLocate(t *testing.T) {
	s := parsed(t, nil, "--standalone", "--rdzv-backend", "static", "--rdzv-endpoint", "h:1", "--rdzv-id", "x", "s")
	if s.Backend != "c10d" || s.Endpoint != "localhost:0" || len(s.RunID) != 36 || !s.AnyPort {
		t.Errorf("standalone: %+v", s)
	}
	for _, c := range []struct {
		args, addr string
		port       int
	}{
		{"--rdzv-endpoint h:7", "h", 7},
		{"--rdzv-endpoint h", "h", 0},
		{"--rdzv-endpoint [::1]:7", "::1", 7},
		{"--rdzv-endpoint ::1", "::1", 0},
		{"--rdzv-endpoint h:7 --master-port 8", "h", 8},
		{"--rdzv-endpoint h:7 --master-addr a", "a", 7},
		{"--master-port 8", "127.0.0.1", 8},
	} {
		s := parsed(t, nil, append(strings.Fields(c.args), "s")...)
		if s.MasterAddr != c.addr || s.MasterPort != c.port || s.NodeRank != 0 {
			t.Errorf("%s: %s %d, node rank %d", c.args, s.MasterAddr, s.MasterPort, s.NodeRank)
		}
	}
}

// A scheduler that starts a launcher on each node says where it is; flags win.
func TestSchedulersPlace(t *testing.T) {
	slurm := environ{
		"SLURM_JOB_ID": "77", "SLURM_NODEID": "3", "SLURM_NNODES": "4", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_NODELIST": "n[1-3,7]", "SLURM_PROCID": "3", "SLURM_LOCALID": "0",
		"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_NODES": "4", "SLURM_STEP_NODELIST": "n[1-3,7]", "SLURM_STEP_TASKS_PER_NODE": "1(x4)", "SLURM_TASKS_PER_NODE": "1(x4)",
	}
	s := parsed(t, slurm, "s")
	if s.MinNodes != 4 || s.MaxNodes != 4 || s.NodeRank != 3 || s.MasterAddr != "n1" || s.Place == "" {
		t.Errorf("%+v", s)
	}
	s = parsed(t, slurm, "--nnodes", "1", "s")
	if s.MaxNodes != 1 || s.NodeRank != 0 || s.MasterAddr != "127.0.0.1" || s.Place != "" {
		t.Errorf("with --nnodes 1: %+v", s)
	}
	s = parsed(t, slurm, "--node-rank", "1", "--master-addr", "h", "--rdzv-id", "x", "s")
	if s.MaxNodes != 4 || s.NodeRank != 1 || s.MasterAddr != "h" || s.RunID != "x" {
		t.Errorf("with flags: %+v", s)
	}
	index := environ{"JOB_COMPLETION_INDEX": "2", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
	if s = parsed(t, index, "--nnodes", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "h", "s"); s.NodeRank != 2 {
		t.Errorf("an indexed job's pod: %+v", s)
	}
	kubeflow := environ{"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "job-master-0", "PET_MASTER_PORT": "23456", "RANK": "1", "WORLD_SIZE": "2"}
	s = parsed(t, kubeflow, "s")
	if s.MaxNodes != 2 || s.Workers != 4 || s.NodeRank != 1 || s.MasterAddr != "job-master-0" || s.MasterPort != 23456 {
		t.Errorf("Kubeflow: %+v", s)
	}
}

// Signals and times.
func TestSignalFlags(t *testing.T) {
	s := parsed(t, nil, "--signals-to-handle", "SIGTERM, SIGUSR1", "--shutdown-timeout", "1.5", "s")
	if !slices.Equal(s.Signals, []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1}) || s.SignalText != "SIGTERM, SIGUSR1" || s.ShutdownTimeout != 1500*time.Millisecond {
		t.Errorf("%+v", s)
	}
}

// Help wins over what is wrong, and names every flag; so does each completion script.
func TestShow(t *testing.T) {
	for args, want := range map[string]Show{"-h --nope": ShowHelp, "--help": ShowHelp, "-mh s": ShowHelp, "--version": ShowVersion, "--print-completion zsh": ShowZsh, "-s tcsh": ShowTcsh} {
		if s, err := parse(strings.Fields(args), environ{}.lookup, counts{}); err != nil || s.Show != want {
			t.Errorf("%s: %q (%v)", args, s.Show, err)
		}
	}
	texts := map[string]string{"help": Help()}
	for _, shell := range []Show{ShowBash, ShowZsh, ShowTcsh} {
		texts[string(shell)] = Completion(shell)
	}
	for name, text := range texts {
		for _, o := range options() {
			if !strings.Contains(text, "--"+o.name) {
				t.Errorf("%s does not name --%s", name, o.name)
			}
		}
	}
	if !slices.Equal(Complete("--max"), []string{"--max-restarts"}) || !InScript([]string{"--tee", "3", "s"}) || InScript([]string{"--tee", "3"}) {
		t.Error("completion")
	}
}

// Arguments: the local rank's macro, and no other change.
func TestMacro(t *testing.T) {
	c := command{path: "p", args: []string{"--lr=${local_rank}${local_rank}", "$local_rank", "$$", "${rank}"}}
	if got := c.of(3); !slices.Equal(got, []string{"p", "--lr=33", "$local_rank", "$$", "${rank}"}) {
		t.Errorf("%q", got)
	}
}

// Parse takes any words without a panic, and what it accepts is valid.
func FuzzParse(f *testing.F) {
	f.Add("--nproc-per-node=2\x1f--tee\x1f0:1\x1fs\x1f-x")
	f.Add("-mr3\x1f--\x1f-s")
	f.Add("--nnodes\x1f1:2\x1f--rdzv-endpoint\x1f[::1]:7\x1f--rdzv-backend=c10d\x1fs")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parse(strings.Split(line, "\x1f"), environ{}.lookup, counts{cpus: 1})
		if err == nil && s.Validate() != nil {
			t.Errorf("%q was accepted and is not valid: %v", line, s.Validate())
		}
	})
}
