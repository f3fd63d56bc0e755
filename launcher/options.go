package launcher

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// option is one flag of the command line.
type option struct {
	name  string // with dashes; the spelling with underscores is the same flag
	short byte   // 0 for none
	value string // what the help calls its value; "" for a switch
	env   string // variable of its default, "" for none
	ours  bool   // torchrun has it not: exact spelling only
	set   func(s *Spec, value string) error
	help  string
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
		{name: "rdzv-backend", value: "NAME", env: "pet", help: "static or c10d (default static)", set: text(func(s *Spec) *string { return &s.Backend })},
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
		{name: "exit-timeout", value: "S", ours: true, help: "how long to wait for other nodes after success; 0 is without end (default 300)", set: seconds(func(s *Spec) *time.Duration { return &s.ExitTimeout })},
	}
}

func commandOptions() []option {
	return []option{
		{name: "module", short: 'm', env: "pet", help: "the script is a Python module", set: toggle(func(s *Spec) *bool { return &s.Module })},
		{name: "no-python", env: "pet", help: "the script is a program", set: toggle(func(s *Spec) *bool { return &s.NoPython })},
		{name: "run-path", env: "pet", help: "run the script by runpy.run_path", set: toggle(func(s *Spec) *bool { return &s.RunPath })},
		{name: "start-method", value: "NAME", env: "pet", help: "accepted, without effect", set: text(func(s *Spec) *string { return &s.StartMethod })},
		{name: "event-log-handler", value: "NAME", env: "pet", help: "accepted, without effect", set: text(func(s *Spec) *string { return &s.EventLog })},
		{name: "role", value: "NAME", env: "pet", help: "role of the workers (default default)", set: text(func(s *Spec) *string { return &s.Role })},
		{name: "virtual-local-rank", help: "LOCAL_RANK is 0 everywhere and each worker sees its GPU alone", set: toggle(func(s *Spec) *bool { return &s.VirtualLocalRank })},
		{name: "numa-binding", value: "MODE", help: "node, socket, exclusive or core-complex", set: setBinding},
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
		{name: "redirects", short: 'r', value: "0..3|RANK:0..3,…", env: "pet", help: "streams that go to files: 1 stdout, 2 stderr, 3 both", set: streams("--redirects", func(s *Spec) *PerRank { return &s.Redirects })},
		{name: "tee", short: 't', value: "0..3|RANK:0..3,…", env: "pet", help: "streams that go to files and to the console", set: streams("--tee", func(s *Spec) *PerRank { return &s.Tee })},
		{name: "local-ranks-filter", value: "LIST", env: "pet", help: "show only these local ranks on the console", set: setLocalRanks},
		{name: "duplicate-stdout-filters", value: "LIST", env: "pet", help: "copy teed lines with one of these texts to filtered_stdout.log", set: words(func(s *Spec) *[]string { return &s.StdoutDuplicates })},
		{name: "duplicate-stderr-filters", value: "LIST", env: "pet", help: "the same for standard error", set: words(func(s *Spec) *[]string { return &s.StderrDuplicates })},
		{name: "log-line-prefix-template", value: "TEXT", env: "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", help: "prefix of teed lines; ${role_name}, ${local_rank}, ${rank}, ${hostname}, ${attempt}", set: text(func(s *Spec) *string { return &s.Prefix })},
		{name: "print-completion", short: 's', value: "SHELL", help: "print a completion script: bash, zsh or tcsh", set: setCompletion},
		{name: "help", short: 'h', help: "print this text", set: func(s *Spec, _ string) error { s.Show = ShowHelp; return nil }},
		{name: "version", ours: true, help: "print the version", set: func(s *Spec, _ string) error { s.Show = ShowVersion; return nil }},
	}
}

func text(field func(*Spec) *string) func(*Spec, string) error {
	return func(s *Spec, v string) error { *field(s) = v; return nil }
}

// toggle takes "" from the command line, and 0 or 1 from a variable.
func toggle(field func(*Spec) *bool) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		if v == "" {
			v = "1"
		}
		n, err := strconv.Atoi(strings.TrimSpace(v))
		*field(s) = n != 0
		if err != nil {
			return fmt.Errorf("is %q: 0 or 1", v)
		}
		return nil
	}
}

const minInt = -1 << 62

// whole reads a number that is at least low; Validate has the other limits.
func whole(field func(*Spec) *int, low int) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil {
			return fmt.Errorf("is %q: a whole number is needed", v)
		}
		if n < low {
			return fmt.Errorf("is %d: at least %d", n, low)
		}
		*field(s) = n
		return nil
	}
}

func seconds(field func(*Spec) *time.Duration) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || !(f >= 0 && f < 1e9) { // NaN too
			return fmt.Errorf("is %q: a number of seconds, at least 0", v)
		}
		*field(s) = time.Duration(f * float64(time.Second))
		return nil
	}
}

func setInterval(s *Spec, v string) error {
	f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil {
		return fmt.Errorf("is %q: a number of seconds", v)
	}
	s.MonitorInterval = f
	return nil
}

func setNodes(s *Spec, v string) error {
	low, high, ranged := strings.Cut(v, ":")
	if !ranged {
		high = low
	}
	a, errA := strconv.Atoi(strings.TrimSpace(low))
	b, errB := strconv.Atoi(strings.TrimSpace(high))
	if errA != nil || errB != nil {
		return fmt.Errorf("is %q: N or MIN:MAX", v)
	}
	s.MinNodes, s.MaxNodes = a, b
	return nil
}

func setPort(s *Spec, v string) error {
	if err := whole(func(s *Spec) *int { return &s.MasterPort }, 0)(s, v); err != nil {
		return err
	}
	s.AnyPort = s.MasterPort == 0
	return nil
}

// setConf reads k=v pairs; torchrun ignores blanks around them.
func setConf(s *Spec, v string) error {
	s.Conf = map[string]string{}
	for pair := range strings.SplitSeq(v, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || key == "" || value == "" {
			return fmt.Errorf("has %q: KEY=VALUE is needed", pair)
		}
		s.Conf[key] = value
	}
	return nil
}

func setBinding(s *Spec, v string) error {
	s.NumaBinding = v
	if v == "" {
		return fmt.Errorf(`is "": node, socket, exclusive or core-complex`)
	}
	return nil
}

func setCompletion(s *Spec, v string) error {
	switch s.Show = Show(v); s.Show {
	case ShowBash, ShowZsh, ShowTcsh:
		return nil
	}
	s.Show = ""
	return fmt.Errorf("is %q: bash, zsh or tcsh", v)
}

// streams reads 0..3, or rank:0..3 pairs. torchrun's pattern takes ranks of one
// digit only; here they may have more.
func streams(_ string, field func(*Spec) *PerRank) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		p := PerRank{}
		if n, ok := streamBits(v); ok {
			p.All = n
			*field(s) = p
			return nil
		}
		p.Ranks = map[int]Streams{}
		for pair := range strings.SplitSeq(v, ",") {
			rank, bits, _ := strings.Cut(pair, ":")
			r, err := strconv.ParseUint(rank, 10, 16)
			n, ok := streamBits(bits)
			if err != nil || !ok {
				return fmt.Errorf("is %q: 0 to 3, or RANK:0..3 pairs with commas between them", v)
			}
			p.Ranks[int(r)] = n
		}
		*field(s) = p
		return nil
	}
}

func streamBits(v string) (Streams, bool) {
	if len(v) != 1 || v[0] < '0' || v[0] > '3' {
		return 0, false
	}
	return Streams(v[0] - '0'), true
}

func setLocalRanks(s *Spec, v string) error {
	s.LocalRanks = nil
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("is %q: local ranks with commas between them", v)
		}
		s.LocalRanks = append(s.LocalRanks, n)
	}
	return nil
}

// words splits at commas; two commas stand for one within a word.
func words(field func(*Spec) *[]string) func(*Spec, string) error {
	return func(s *Spec, v string) error {
		var list []string
		const comma = "\x00"
		for part := range strings.SplitSeq(strings.ReplaceAll(v, ",,", comma), ",") {
			if part = strings.TrimSpace(strings.ReplaceAll(part, comma, ",")); part != "" {
				list = append(list, part)
			}
		}
		*field(s) = list
		return nil
	}
}
