package lint

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// row says what the packages of one folder may import beyond the standard
// library. Test files are free.
type row struct {
	ours   []string // folders of this module; "*" is any
	others []string // prefixes of other modules' import paths
	pure   bool     // no I/O and no goroutine: bytes and numbers in, values out
	// durations: a pure package may count with lengths of time that are given to it; it has
	// no clock.
	durations bool
	why       string
}

// folders is the table of the design: the folder list reads as the data path,
// and imports go one way along it.
var folders = map[string]row{
	"nd":       {pure: true, why: "nd holds the words that all others share, so it can import none of them"},
	"rank":     {why: "rank is asked before anything is set up, and inside launchers that load no data"},
	"sampler":  {ours: []string{"nd"}, pure: true, why: "the order of samples is arithmetic: the same on every machine, shapes are given to it"},
	"zarr":     {ours: []string{"nd"}, pure: true, why: "zarr turns bytes into meaning; who fetches them is another's business"},
	"codec":    {ours: []string{"nd"}, others: []string{"github.com/klauspost/compress", "github.com/pierrec/lz4", "github.com/DataDog/zstd", "golang.org/x/sys/cpu"}, why: "codec turns bytes into bytes and knows neither arrays nor files"},
	"store":    {ours: []string{"nd"}, others: []string{"golang.org/x/sys", "github.com/pawelgaczynski/giouring"}, why: "store knows keys and bytes, not what they mean"},
	"cuda":     {ours: []string{"nd"}, why: "cuda holds primitives, with no notion of a wave"},
	"pipeline": {ours: []string{"nd", "zarr", "codec", "store", "cuda", "cuda/decode", "cuda/kernels", "sampler"}, others: []string{"golang.org/x/sys"}, why: "the engine of one rank: it knows neither the job nor a coordinator"},
	"loader":   {ours: []string{"nd", "rank", "sampler", "pipeline", "agentapi"}, why: "a rank must load data with the coordinator dead; a Fence is handed in by cabi or cmd"},

	"cuda/kernels": {ours: []string{"nd"}, pure: true, why: "kernels is an image and the form of its parameters; who launches them is another's business"},
	"cuda/decode":  {ours: []string{"nd", "cuda", "cuda/kernels"}, why: "decode is chunks of bytes on a device: it knows neither arrays nor waves"},

	"agentapi":    {ours: []string{"nd", "internal/jsonframe"}, why: "the protocol is shared by both ends and must pull in neither"},
	"companion":   {ours: []string{"nd", "pipeline", "companion/session", "agentapi"}, others: []string{"golang.org/x/sys"}, why: "the engine process is a session behind a socket"},
	"coord":       {ours: []string{"nd"}, pure: true, why: "the machine that the log drives is a pure function of the log"},
	"coord/group": {ours: []string{"nd", "coord", "internal/plural"}, others: []string{"go.etcd.io/raft/v3", "google.golang.org/protobuf"}, pure: true, durations: true, why: "the decision loop has no I/O, so that the simulator can run many of them"},
	"coord/fence": {ours: []string{"nd", "rank", "sampler", "coord", "agentapi"}, why: "the rank's side: what the agent says, and no part of deciding it"},
	"coord/sim":   {ours: []string{"nd", "coord", "coord/group"}, why: "one thread, one seed"},
	"coord/agent": {ours: []string{"nd", "rank", "sampler", "coord", "coord/group", "agentapi", "metrics", "internal/plural", "internal/sealed"}, others: []string{"github.com/hashicorp/memberlist", "go.etcd.io/raft/v3", "github.com/prometheus"}, why: "the shell around the decision loop"},
	"metrics":     {others: []string{"github.com/prometheus"}, why: "metrics serves numbers that are given to it"},
	"launcher":    {ours: []string{"nd", "rank", "agentapi", "metrics", "coord", "coord/agent", "internal/plural", "internal/sealed", "launcher/nvml", "launcher/rendezvous", "launcher/topology"}, others: []string{"golang.org/x/sys", "github.com/prometheus"}, why: "the launcher starts ranks and loads no data"},

	"companion/session": {ours: []string{"nd", "rank", "sampler", "zarr", "cuda", "pipeline", "loader", "agentapi"}, why: "what a client asks for is the same in its process and over a socket"},

	"launcher/rendezvous": {ours: []string{"nd", "internal/jsonframe"}, why: "who is in the round is agreed without knowing what a worker is"},
	"launcher/topology":   {ours: []string{"nd", "launcher/nvml"}, others: []string{"golang.org/x/sys"}, why: "the machine's shape is read, not acted on"},
	"launcher/nvml":       {others: []string{"github.com/NVIDIA/go-nvml"}, why: "NVML is wanted in one place, behind a build tag"},

	"cabi":     {ours: []string{"nd", "rank", "sampler", "zarr", "store", "pipeline", "loader", "companion/session", "coord/fence", "agentapi"}, why: "cabi translates calls; what it can do, Go programs can do without it"},
	"cmd":      {ours: []string{"*"}, others: []string{"github.com/spf13", "github.com/schollz/progressbar", "golang.org/x/term", "golang.org/x/sys"}, why: "flags and printing only"},
	"examples": {ours: []string{"nd", "rank", "sampler", "store", "cuda", "pipeline", "loader"}, why: "an example uses what a user has"},

	"tools": {why: "a module of its own: programs and types that only the checks need"},

	"internal/scenario":   {ours: []string{"nd", "zarr", "codec", "sampler", "store", "pipeline"}, why: "scenarios describe data sets and runs; cmd runs them"},
	"internal/dataset":    {ours: []string{"nd", "zarr", "codec", "internal/scenario", "internal/atomicfile"}, others: []string{"github.com/klauspost/compress", "github.com/DataDog/zstd"}, why: "dataset writes what a scenario describes"},
	"internal/plainread":  {ours: []string{"nd", "zarr", "codec", "store"}, why: "what the engine is held against shares no code with it"},
	"internal/npy":        {ours: []string{"nd"}, pure: true, why: "npy is a header"},
	"internal/order":      {ours: []string{"nd", "sampler"}, why: "order walks an epoch on several cores; what it computes is sampler's"},
	"internal/export":     {ours: []string{"nd", "zarr", "sampler", "pipeline"}, why: "export streams one box through the engine"},
	"internal/benchmark":  {ours: []string{"nd", "zarr", "codec", "store", "sampler", "pipeline", "internal/scenario", "internal/dataset", "internal/plainread"}, why: "a benchmark writes its data, runs the engine and checks it against plainread"},
	"internal/demo":       {ours: []string{"nd", "rank", "sampler", "pipeline", "loader", "internal/scenario", "internal/dataset", "internal/benchmark"}, why: "the demo is a small trainer over small data"},
	"internal/doctor":     {ours: []string{"nd", "coord/agent", "internal/plural", "rank", "store", "cuda", "cuda/kernels"}, others: []string{"golang.org/x/sys"}, why: "doctor looks at the machine, its GPUs and whether the kernels load there, not at data; store is where io_uring is tried"},
	"internal/probe":      {ours: []string{"nd", "zarr", "codec", "store", "sampler", "pipeline", "cuda", "cuda/decode", "cuda/kernels"}, others: []string{"github.com/klauspost/compress", "golang.org/x/sys"}, why: "a probe reads chunks as they lie and decodes them by themselves; of the engine it knows how an array is opened"},
	"internal/jsonframe":  {ours: []string{"nd"}, why: "the form of messages, not what they say"},
	"internal/sealed":     {ours: []string{"nd"}, why: "bytes between two that know a key, not what they say"},
	"internal/plural":     {why: "words"},
	"internal/testwait":   {why: "the time that tests wait for anything"},
	"internal/testport":   {why: "a port is a number; tests of several packages need one"},
	"internal/atomicfile": {ours: []string{"nd"}, others: []string{"golang.org/x/sys"}, why: "a file that is whole or absent"},
	"tests/decoders":      {ours: []string{"cuda/kernels"}, others: []string{"github.com/klauspost/compress", "github.com/pierrec/lz4"}, why: "what the decoders are tried on is written by encoders of others"},
	"internal/lint":       {why: "lint reads source and needs nothing of the engine"},
}

// find is the row of a folder: its own, or that of the nearest folder above.
func find(folder string) (row, string, bool) {
	for name := folder; ; {
		if r, ok := folders[name]; ok {
			return r, name, true
		}
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 {
			return row{}, "", false
		}
		name = name[:cut]
	}
}

// Imports checks the direct imports of every file against the table.
func Imports(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		if f.Test {
			continue
		}
		r, name, ok := find(f.Folder)
		if !ok {
			problems = append(problems, Problem{f.Path, fmt.Sprintf("folder %q has no row in internal/lint/imports.go: add one that says what it may import and why", f.Folder)})
			continue
		}
		for _, imported := range f.imports() {
			if !r.allows(name, imported) {
				problems = append(problems, Problem{f.Path, fmt.Sprintf("%s may not import %s: %s", name, imported, r.why)})
			}
		}
	}
	return problems
}

func (r row) allows(self, imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library; see Pure for its limits
	}
	if imported == Module {
		return true
	}
	if ours, ok := strings.CutPrefix(imported, Module+"/"); ok {
		_, owner, found := find(ours)
		return found && (owner == self || slices.Contains(r.ours, owner) || slices.Contains(r.ours, "*"))
	}
	return slices.ContainsFunc(r.others, func(prefix string) bool { return strings.HasPrefix(imported, prefix) })
}

// effects are the parts of the standard library through which a package reaches
// beyond its arguments.
var effects = []string{"os", "os/exec", "os/signal", "net", "net/http", "syscall", "log", "log/slog", "time", "io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "runtime/debug"}

// Cgo checks where C and unsafe are reached.
func Cgo(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		for _, imported := range f.imports() {
			if (imported == "C" || imported == "unsafe") && !mayUseC(f) {
				problems = append(problems, Problem{f.Path, imported + " belongs in cuda, cabi, the ring reader of store, and in tagged files of codec that have a pure Go twin: everywhere else a fault must be an error, not a crash of the trainer"})
			}
		}
	}
	return problems
}

func mayUseC(f *File) bool {
	top, _, _ := strings.Cut(f.Folder, "/")
	switch top {
	case "cuda", "cabi":
		return true
	case "codec":
		return f.Tagged || f.Test
	case "store":
		return f.Tagged && strings.HasSuffix(f.Path, "uring.go")
	}
	return false
}

// pureFiles are machines without clock and I/O in folders that have both.
var pureFiles = map[string]row{
	"launcher/keeper.go":      {pure: true, durations: true, why: "what views and notes mean for a node is tried by scripts, without nodes"},
	"launcher/keeper_text.go": {pure: true, durations: true, why: "a part of the keeper"},
}

// Pure checks that pure packages and files reach nothing but their arguments: they import
// none of effects and start no goroutine.
func Pure(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		r, name, ok := find(f.Folder)
		if alone, listed := pureFiles[f.Path]; listed {
			r, name, ok = alone, f.Path, true
		}
		if !ok || !r.pure || f.Test {
			continue
		}
		for _, imported := range f.imports() {
			if slices.Contains(effects, imported) && (imported != "time" || !r.durations) {
				problems = append(problems, Problem{f.Path, fmt.Sprintf("%s is pure and may not import %s: %s", name, imported, r.why)})
			}
		}
		for _, n := range clockUses(f) {
			problems = append(problems, Problem{f.at(n), fmt.Sprintf("%s is pure and may not look at a clock: %s", name, r.why)})
		}
		for _, n := range goStatements(f) {
			problems = append(problems, Problem{f.at(n), fmt.Sprintf("%s is pure and may not start a goroutine: %s", name, r.why)})
		}
	}
	return problems
}

// clocks are the functions of package time that know what time it is, or wait.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// clockUses lists where a file looks at a clock.
func clockUses(f *File) (found []ast.Node) {
	names := importNames(f)
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] == "time" && slices.Contains(clocks, sel.Sel.Name) {
				found = append(found, sel)
			}
		}
		return true
	})
	return found
}

// Closure is what a package reaches, directly or through others.
type Closure struct {
	Path string
	Deps []string
}

// reach forbids whole closures: a ban holds for every package of the folder,
// however long the way.
var reach = []struct{ folder, banned, why string }{
	{"cabi", "os/signal", "Go's signal handling would take Ctrl-C away from the trainer that loads the library"},
	{"cabi", "github.com/hashicorp/memberlist", "gossip runs in the launcher or the agent, never in a trainer"},
	{"cabi", "github.com/NVIDIA/go-nvml", "a trainer must start on a machine without NVML"},
	{"pipeline", Module + "/coord", "a rank must load data with the coordinator dead"},
	{"loader", Module + "/coord", "a rank must load data with the coordinator dead"},
	{"pipeline", Module + "/loader", "the engine does not know which batch is its own"},
	{"pipeline", Module + "/rank", "the engine does not know the job"},
	{"cabi", Module + "/launcher", "a trainer starts no ranks"},
}

// Reach checks the transitive rules. Nothing but cmd may reach launcher.
func Reach(packages []Closure) []Problem {
	var problems []Problem
	for _, p := range packages {
		folder, ours := strings.CutPrefix(p.Path, Module+"/")
		if !ours {
			continue
		}
		for _, rule := range reach {
			if within(folder, rule.folder) && slices.ContainsFunc(p.Deps, func(d string) bool { return within(d, rule.banned) }) {
				problems = append(problems, Problem{folder, fmt.Sprintf("reaches %s: %s", rule.banned, rule.why)})
			}
		}
		if !within(folder, "cmd") && !within(folder, "launcher") && slices.Contains(p.Deps, Module+"/launcher") {
			problems = append(problems, Problem{folder, "reaches launcher: only cmd may, since a launcher owns processes and signals"})
		}
	}
	return problems
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
