package launcher

import (
	"fmt"
	"strings"
	"time"
)

// option is one flag of the command line.
type option struct {
	name    string   // with dashes; the spelling with underscores is the same flag
	short   byte     // 0 for none
	value   string   // what the help calls its value; "" for a switch
	choices []string // all that the value may be; nil: too many to tell
	env     string   // variable of its default, "" for none
	ours    bool     // torchrun has it not: exact spelling only
	set     func(s *Spec, value string) error
	help    string
}

// pet names the variable of a flag's default as torchrun does.
func pet(name string) string {
	return "PET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// options is the table of all flags, in the order of the help.
func options() []option {
	list := append(append(jobOptions(), commandOptions()...), outputOptions()...)
	for i := range list {
		if o := &list[i]; o.env == "pet" {
			o.env = pet(o.name)
		}
	}
	return list
}

func jobOptions() []option {
	return []option{
		{name: "nnodes", value: "N|MIN:MAX", env: "pet", help: "nodes of the job (default 1)", set: setNodes},
		{name: "nproc-per-node", value: "N|auto|cpu|gpu", env: "pet", help: "workers on this node (default 1)"}, // set by the parser, which knows the machine
		{name: "rdzv-backend", value: "NAME", choices: backends(), env: "pet", help: "static or c10d (default static)", set: text(func(s *Spec) *string { return &s.Backend })},
		{name: "rdzv-endpoint", value: "HOST[:PORT]", env: "pet", help: "where the nodes meet", set: text(func(s *Spec) *string { return &s.Endpoint })},
		{name: "rdzv-id", value: "ID", env: "pet", help: "name of the job (default none)", set: text(func(s *Spec) *string { return &s.RunID })},
		{name: "rdzv-conf", value: "K=V,…", env: "pet", help: "join_timeout, last_call_timeout, …", set: setConf},
		{name: "standalone", env: "pet", help: "a job of one node, on a free port", set: toggle(func(s *Spec) *bool { return &s.Standalone })},
		{name: "node-rank", value: "N", env: "pet", help: "rank of this node", set: whole(func(s *Spec) *int { return &s.NodeRank }, 0)},
		{name: "master-addr", value: "ADDR", env: "pet", help: "address of node 0 in a static job (default 127.0.0.1)", set: text(func(s *Spec) *string { return &s.MasterAddr })},
		{name: "master-port", value: "PORT", env: "pet", help: "port of rank 0 (default 29500, or a free one where that is taken)", set: setPort},
		{name: "local-addr", value: "ADDR", env: "pet", help: "address that this node tells the others", set: text(func(s *Spec) *string { return &s.LocalAddr })},
		{name: "max-restarts", value: "N", env: "pet", help: "restarts of the job's workers (default 0)", set: whole(func(s *Spec) *int { return &s.MaxRestarts }, minInt)},
		{name: "monitor-interval", value: "S", env: "pet", help: "accepted; a death is seen at once", set: setInterval},
		{name: "shutdown-timeout", value: "S", env: "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", help: "from the stop signal to SIGKILL (default 30)", set: seconds(func(s *Spec) *time.Duration { return &s.ShutdownTimeout })},
		{name: "signals-to-handle", value: "LIST", env: "pet", help: "these stop the job (default SIGTERM,SIGINT,SIGHUP,SIGQUIT)", set: setSignals},
		{name: "live", ours: true, help: "survivors go on: a failed worker is started again alone, a lost node is left behind", set: toggle(func(s *Spec) *bool { return &s.Live })},
		{name: "live-contact", value: "HOST:PORT,…", ours: true, help: "join a live job by these agents of it, without its rendezvous", set: words(func(s *Spec) *[]string { return &s.LiveContacts })},
		{name: "live-port", value: "PORT", ours: true, help: "of this node's agent, TCP and UDP (default a free one)", set: whole(func(s *Spec) *int { return &s.LivePort }, 0)},
		{name: "live-timeout", value: "S", ours: true, help: "without a majority of the agents, until the job stops with code 75 (default 120)", set: seconds(func(s *Spec) *time.Duration { return &s.LiveTimeout })},
		{name: "live-profile", value: "NAME", choices: liveProfiles(), ours: true, help: "default: a lost node is out after about 11 s; fast: about 3 s", set: text(func(s *Spec) *string { return &s.LiveProfile })},
		{name: "key-file", value: "FILE", env: keyVariable, ours: true, help: "the job's key, 16 bytes or more, the same on all nodes (default HEADRACE_KEY_FILE)", set: text(func(s *Spec) *string { return &s.KeyFile })},
		{name: "exit-timeout", value: "S", ours: true, help: "how long to wait for other nodes after success; 0 is without end (default 300)", set: seconds(func(s *Spec) *time.Duration { return &s.ExitTimeout })},
	}
}

func backends() []string     { return []string{"static", "c10d"} }
func liveProfiles() []string { return []string{"default", "fast"} }
func startMethods() []string { return []string{"spawn", "fork", "forkserver"} }
func bindings() []string     { return []string{"node", "socket", "exclusive", "core-complex", "none"} }

func commandOptions() []option {
	return []option{
		{name: "module", short: 'm', env: "pet", help: "the script is a Python module", set: toggle(func(s *Spec) *bool { return &s.Module })},
		{name: "no-python", env: "pet", help: "the script is a program", set: toggle(func(s *Spec) *bool { return &s.NoPython })},
		{name: "run-path", env: "pet", help: "run the script by runpy.run_path", set: toggle(func(s *Spec) *bool { return &s.RunPath })},
		{name: "start-method", value: "NAME", choices: startMethods(), env: "pet", help: "accepted, without effect", set: text(func(s *Spec) *string { return &s.StartMethod })},
		{name: "event-log-handler", value: "NAME", env: "pet", help: "accepted, without effect", set: text(func(s *Spec) *string { return &s.EventLog })},
		{name: "role", value: "NAME", env: "pet", help: "role of the workers (default default)", set: text(func(s *Spec) *string { return &s.Role })},
		{name: "virtual-local-rank", help: "LOCAL_RANK is 0 everywhere and each worker sees its GPU alone", set: toggle(func(s *Spec) *bool { return &s.VirtualLocalRank })},
		{name: "numa-binding", value: "MODE", choices: bindings(), help: "node, socket, exclusive or core-complex", set: setBinding},
		{name: "logs-specs", value: "NAME", help: "refused: a Python entry point", set: func(*Spec, string) error {
			return fmt.Errorf("--logs-specs names a Python entry point, which this launcher cannot load: use --log-dir, --redirects, --tee and --local-ranks-filter")
		}},
		{name: "companion", ours: true, help: "start one engine a rank beside the workers", set: toggle(func(s *Spec) *bool { return &s.Companion })},
		{name: "metrics-port", value: "PORT", ours: true, help: "serve Prometheus metrics on this loopback port; 0 is a free one", set: whole(func(s *Spec) *int { return &s.MetricsPort }, 0)},
	}
}

func outputOptions() []option {
	return []option{
		{name: "log-dir", value: "DIR", env: "pet", help: "folder of the log tree (default: a new temporary one)", set: text(func(s *Spec) *string { return &s.LogDir })},
		{name: "redirects", short: 'r', value: "0..3|RANK:0..3,…", env: "pet", help: "streams that go to files: 1 stdout, 2 stderr, 3 both", set: streams(func(s *Spec) *PerRank { return &s.Redirects })},
		{name: "tee", short: 't', value: "0..3|RANK:0..3,…", env: "pet", help: "streams that go to files and to the console", set: streams(func(s *Spec) *PerRank { return &s.Tee })},
		{name: "local-ranks-filter", value: "LIST", env: "pet", help: "show only these local ranks on the console", set: setLocalRanks},
		{name: "duplicate-stdout-filters", value: "LIST", env: "pet", help: "copy teed lines with one of these texts to filtered_stdout.log", set: words(func(s *Spec) *[]string { return &s.StdoutDuplicates })},
		{name: "duplicate-stderr-filters", value: "LIST", env: "pet", help: "the same for standard error", set: words(func(s *Spec) *[]string { return &s.StderrDuplicates })},
		{name: "log-line-prefix-template", value: "TEXT", env: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", help: "prefix of teed lines; ${role_name}, ${local_rank}, ${rank}, ${hostname}, ${attempt}", set: text(func(s *Spec) *string { return &s.Prefix })},
		{name: "print-completion", short: 's', value: "SHELL", choices: []string{string(ShowBash), string(ShowZsh), string(ShowTcsh)}, help: "print a completion script of these flags for bash, zsh or tcsh; `headrace completion` has all commands", set: setCompletion},
		{name: "help", short: 'h', help: "print this text", set: func(s *Spec, _ string) error { s.Show = ShowHelp; return nil }},
		{name: "version", ours: true, help: "print the version", set: func(s *Spec, _ string) error { s.Show = ShowVersion; return nil }},
	}
}
