package launcher

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/sealed"
)

// Streams says which of a worker's output streams are meant: bit 0 is standard
// output, bit 1 standard error.
type Streams uint8

// The streams of a worker.
const (
	Stdout Streams = 1 << iota
	Stderr
)

// PerRank holds the streams of each local rank.
type PerRank struct {
	All   Streams         // for ranks that Ranks does not name
	Ranks map[int]Streams // by local rank
}

// Of gives the streams of a local rank.
func (p PerRank) Of(local int) Streams {
	if s, ok := p.Ranks[local]; ok {
		return s
	}
	return p.All
}

// any reports whether a stream of a rank is named.
func (p PerRank) any(workers int) bool {
	for local := range workers {
		if p.Of(local) != 0 {
			return true
		}
	}
	return false
}

// Show is what a command line asks for in place of a job.
type Show string

// What can be shown.
const (
	ShowHelp    Show = "help"
	ShowVersion Show = "version"
	ShowBash    Show = "bash"
	ShowZsh     Show = "zsh"
	ShowTcsh    Show = "tcsh"
)

// Spec is one node's part of a job: what torchrun's command line says, with the
// defaults filled in. Make one by Parse, or by Default and changes.
type Spec struct {
	Show Show // not a job: print this

	MinNodes, MaxNodes int
	Workers            int // processes on this node

	Backend    string // static or c10d
	Endpoint   string // host[:port] of the rendezvous
	RunID      string
	Conf       map[string]string // --rdzv-conf
	Standalone bool
	NodeRank   int    // -1: as the rendezvous gives it
	MasterAddr string // of a static job
	MasterPort int    // 0: none asked for
	AnyPort    bool   // port 0 was asked for: a free one, never 29500
	LocalAddr  string // the address that this node tells the others, "" = found out

	// Live has the survivors of a failure go on: an agent in the launcher keeps the job's
	// views, and MaxRestarts counts this node's workers alone.
	Live         bool
	LiveContacts []string      // host:port of agents of a job that runs: no rendezvous
	LivePort     int           // of this node's agent; 0: a free one
	LiveTimeout  time.Duration // without a majority, until the job stops here
	LiveProfile  string        // default or fast; see agent.Config

	MaxRestarts     int // of the whole job
	ShutdownTimeout time.Duration
	ExitTimeout     time.Duration // how long to wait for the other nodes after success; 0: without end
	MonitorInterval float64       // accepted; deaths are events here
	StartMethod     string        // accepted and inert
	EventLog        string        // accepted and inert
	Role            string
	Signals         []syscall.Signal // these stop the job
	SignalText      string           // as it was given, for the workers' environment

	Module, NoPython, RunPath bool
	VirtualLocalRank          bool
	Script                    string
	Args                      []string

	LogDir           string // "" = a new folder in the system's temporary one, /dev/null = none
	Redirects, Tee   PerRank
	LocalRanks       []int // whose output the console shows; nil = all
	StdoutDuplicates []string
	StderrDuplicates []string
	Prefix           string // template of the console's line prefix

	NumaBinding string // "", none, node, socket, exclusive or core-complex
	Companion   bool
	MetricsPort int    // -1: no metrics
	KeyFile     string // of the job's key: --key-file or HEADRACE_KEY_FILE, "" for none

	// Place says which scheduler's variables filled in what the flags left open,
	// "" for none.
	Place string

	// Adopt makes this process the parent of every orphan below it, so that no
	// grandchild is lost. Only for a process that starts nothing else.
	Adopt bool

	// Program is the headrace binary, which --companion starts engines from.
	Program string
	Release string // of headrace, for the agent of --live to tell

	Env            []string     // of the workers, before the launcher's own variables; nil: this process's
	Stdout, Stderr *os.File     // nil: this process's
	PrintWarning   func(string) // nil: not told

	keyName   string        // where KeyFile was named, for messages
	key       []byte        // what is in it, once Run has read it
	killBound time.Duration // of tests; 0: killBound
}

// Default is torchrun's job of one worker on one node.
func Default() Spec {
	return Spec{
		MinNodes: 1, MaxNodes: 1, Workers: 1,
		Backend: "static", RunID: "none", NodeRank: -1, MasterAddr: "127.0.0.1",
		ShutdownTimeout: 30 * time.Second, ExitTimeout: 300 * time.Second, LiveTimeout: 2 * time.Minute, MonitorInterval: 0.1, StartMethod: "spawn", EventLog: "null",
		Role:       "default",
		Signals:    []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT},
		SignalText: "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
		Prefix:     "[${role_name}${local_rank}]:", MetricsPort: -1,
	}
}

// fill takes what is not given from this process.
func (s *Spec) fill() {
	if s.Env == nil {
		s.Env = os.Environ()
	}
	s.Stdout, s.Stderr = cmp.Or(s.Stdout, os.Stdout), cmp.Or(s.Stderr, os.Stderr)
}

// readKey reads the job's key, where the job needs one or a flag names it. One that is too short
// is a wrong value, before anything has begun.
func (s *Spec) readKey() (err error) {
	if s.KeyFile == "" || s.alone() && !s.Live && s.keyName != keyFlag {
		return nil
	}
	s.key, err = sealed.ReadKey(cmp.Or(s.keyName, keyVariable), s.KeyFile)
	return err
}

const (
	keyFlag     = "--key-file"
	keyVariable = "HEADRACE_KEY_FILE"
)

// maxWorkers bounds the processes of a node: far above any machine's need, and
// far below what would overflow a sum of ranks.
const maxWorkers = 4096

// maxRunID is the most bytes of a run id: it is part of a folder's name, which has
// 255 on most file systems.
const maxRunID = 200

// rule is one thing that a field must satisfy.
type rule struct {
	ok   bool
	text string
}

// Validate reports every violation at once.
func (s *Spec) Validate() error {
	if s.Show != "" {
		return nil
	}
	return oneError(s.violations())
}

func (s *Spec) violations() (list []error) {
	for _, r := range slices.Concat(s.jobRules(), s.liveRules(), s.commandRules(), s.outputRules()) {
		if !r.ok {
			list = append(list, errors.New(r.text))
		}
	}
	return list
}

func (s *Spec) jobRules() []rule {
	return []rule{
		{0 < s.MinNodes && s.MinNodes <= s.MaxNodes, "--nnodes is " + strconv.Itoa(s.MinNodes) + ":" + strconv.Itoa(s.MaxNodes) + ": 0 < MIN <= MAX is needed"},
		{0 < s.Workers && s.Workers <= maxWorkers, "--nproc-per-node is " + strconv.Itoa(s.Workers) + ": 1 to " + strconv.Itoa(maxWorkers)},
		{s.MaxRestarts >= 0, "--max-restarts is " + strconv.Itoa(s.MaxRestarts) + ": at least 0"},
		{s.MonitorInterval > 0, "--monitor-interval is " + strconv.FormatFloat(s.MonitorInterval, 'g', -1, 64) + ": more than 0 seconds"},
		{s.ShutdownTimeout >= 0, "--shutdown-timeout is " + s.ShutdownTimeout.String() + ": at least 0 seconds"},
		{s.ExitTimeout >= 0, "--exit-timeout is " + s.ExitTimeout.String() + ": at least 0 seconds"},
		{slices.Contains(backends(), s.Backend), backendReason(s.Backend)},
		{slices.Contains(startMethods(), s.StartMethod), "--start-method is " + strconv.Quote(s.StartMethod) + ": spawn, fork or forkserver"},
		{s.MasterPort >= 0 && s.MasterPort <= 65535, "--master-port is " + strconv.Itoa(s.MasterPort) + ": 0 to 65535"},
		{s.NodeRank >= -1 && s.NodeRank < max(s.MaxNodes, 1), "--node-rank is " + strconv.Itoa(s.NodeRank) + ": 0 to " + strconv.Itoa(s.MaxNodes-1) + " for --nnodes " + strconv.Itoa(s.MaxNodes)},
		{!s.Standalone || s.MinNodes <= 1, "--standalone is a job of one node, but --nnodes asks for " + strconv.Itoa(s.MinNodes)},
		{s.Backend != "static" || s.MinNodes == s.MaxNodes || len(s.LiveContacts) > 0, "--nnodes " + strconv.Itoa(s.MinNodes) + ":" + strconv.Itoa(s.MaxNodes) + " needs --rdzv-backend c10d: a static job has a fixed number of nodes"},
		{s.Backend != "c10d" || s.Standalone || s.MaxNodes == 1 || s.Endpoint != "" || len(s.LiveContacts) > 0, "--rdzv-endpoint is missing: a c10d job of several nodes meets there"},
		{s.MetricsPort >= -1 && s.MetricsPort <= 65535, "--metrics-port is " + strconv.Itoa(s.MetricsPort) + ": 0 to 65535"},
	}
}

func (s *Spec) commandRules() []rule {
	return []rule{
		{s.Script != "", "the script is missing"},
		{!s.Module || !s.NoPython || s.RunPath, "-m and --no-python exclude each other"},
		{s.NumaBinding == "" || slices.Contains(bindings(), s.NumaBinding), "--numa-binding is " + strconv.Quote(s.NumaBinding) + ": node, socket, exclusive or core-complex"},
		{!hasNUL(s.Script, s.Args), "the script or an argument holds a zero byte"},
	}
}

func (s *Spec) outputRules() []rule {
	return []rule{
		{allBelow(s.LocalRanks, s.Workers), "--local-ranks-filter names a rank that is not 0 to " + strconv.Itoa(s.Workers-1)},
		{!strings.Contains(s.RunID, "\x00") && s.RunID != "", "--rdzv-id is empty"},
		{len(s.RunID) <= maxRunID, "--rdzv-id has " + strconv.Itoa(len(s.RunID)) + " bytes: at most " + strconv.Itoa(maxRunID)},
	}
}

func backendReason(name string) string {
	if strings.HasPrefix(name, "etcd") {
		return "--rdzv-backend " + name + ": etcd is not supported, use c10d, which needs no server of its own"
	}
	return "--rdzv-backend is " + strconv.Quote(name) + ": static or c10d"
}

func allBelow(list []int, n int) bool {
	return !slices.ContainsFunc(list, func(i int) bool { return i < 0 || i >= n })
}

func hasNUL(script string, args []string) bool {
	return strings.Contains(script, "\x00") || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "\x00") })
}
