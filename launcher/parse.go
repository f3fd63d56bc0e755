package launcher

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// Lookup gives the value of an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Parse reads torchrun's command line, and ours. Flags come before the script;
// nothing after it is looked at. A flag that is absent takes its default from its
// variable. The error holds every violation; it is of kind nd.ErrConfig.
func Parse(args []string, lookup Lookup) (Spec, error) {
	return parse(args, lookup, machine{})
}

// given is what a command line says about one flag.
type given struct {
	*option
	from  string // how the user wrote it, for messages
	value string
}

func parse(args []string, lookup Lookup, m counter) (Spec, error) {
	s := Default()
	table := options()
	flags, rest, errs := split(args, table)
	seen := map[string]bool{}
	for _, g := range flags {
		seen[g.name] = true
	}
	for i := range table {
		o := &table[i]
		if v, ok := lookup(o.env); ok && o.env != "" && !seen[o.name] {
			flags = append(flags, given{o, o.env, v})
			seen[o.name] = true
		}
	}
	for _, g := range flags {
		if err := s.apply(g, m, lookup); err != nil {
			errs = append(errs, fmt.Errorf("%s %w", g.from, err))
		}
		if s.Show != "" {
			return s, nil // as everywhere: help wins over what is wrong
		}
	}
	if len(rest) > 0 {
		s.Script, s.Args = rest[0], rest[1:]
	}
	if err := s.locate(seen, lookup); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 || len(rest) > 0 {
		errs = append(errs, s.violations()...)
	}
	return s, oneError(errs)
}

// oneError puts all that is wrong into one line.
func oneError(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return nd.Errorf(nd.ErrConfig, "%s", strings.Join(texts, "; "))
}

func (s *Spec) apply(g given, m counter, lookup Lookup) (err error) {
	if g.name == "nproc-per-node" {
		s.Workers, err = workers(g.value, m, lookup)
		return err
	}
	if g.name == keyFlag[2:] {
		if s.keyName = keyFlag; g.from == keyVariable {
			s.keyName = keyVariable
		}
	}
	return g.set(s, g.value)
}

// locate fills in where this node is: by the rules of --standalone and of the static
// backend, and from a scheduler's variables where the flags say nothing.
func (s *Spec) locate(seen map[string]bool, lookup Lookup) error {
	if s.Standalone {
		s.Backend, s.Endpoint, s.RunID, s.AnyPort = "c10d", "localhost:0", uuid(), true
		return nil
	}
	if err := s.detect(seen, lookup); err != nil || s.Backend != "static" {
		return err
	}
	s.NodeRank = max(s.NodeRank, 0)
	if s.Endpoint == "" {
		return nil
	}
	host, port, err := splitEndpoint(s.Endpoint)
	if err != nil {
		return err
	}
	if !seen["master-addr"] && host != "" {
		s.MasterAddr = host
	}
	if !seen["master-port"] && port > 0 {
		s.MasterPort = port
	}
	return nil
}

// detect asks the scheduler that started a launcher on each node. A job that says it
// is of one node does not ask.
func (s *Spec) detect(seen map[string]bool, lookup Lookup) error {
	if seen["nnodes"] && (s.MaxNodes <= 1 || seen["node-rank"]) {
		return nil
	}
	place, source, err := rank.DetectNode(lookup)
	if err != nil {
		return fmt.Errorf("this node's place in the job: %w", err)
	}
	if place.Nodes == 1 || place.Nodes == 0 && (source == rank.Alone || !seen["nnodes"]) {
		return nil
	}
	s.Place = source
	if !seen["nnodes"] {
		s.MinNodes, s.MaxNodes = place.Nodes, place.Nodes
	}
	if !seen["node-rank"] {
		s.NodeRank = place.Node
	}
	if !seen["master-addr"] && place.Head != "" {
		s.MasterAddr = place.Head
	}
	if s.Backend == "c10d" && s.Endpoint == "" {
		s.Endpoint = place.Head
	}
	if !seen["rdzv-id"] && place.JobID != "" {
		s.RunID = place.JobID
	}
	return nil
}

// splitEndpoint reads host, host:port, [v6] or [v6]:port; port is 0 where there is
// none.
func splitEndpoint(endpoint string) (host string, port int, err error) {
	host = endpoint
	if i := strings.LastIndexByte(endpoint, ':'); i >= 0 && (strings.Count(endpoint, ":") == 1 || strings.HasPrefix(endpoint, "[") && endpoint[i-1] == ']') {
		n, err := strconv.ParseUint(endpoint[i+1:], 10, 16)
		if err != nil {
			return "", 0, fmt.Errorf("--rdzv-endpoint is %q: HOST, HOST:PORT or [ADDRESS]:PORT", endpoint)
		}
		host, port = endpoint[:i], int(n)
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port, nil
}

// split takes the launcher's flags off the front. It goes on after an error, so
// that all are reported.
func split(args []string, table []option) (flags []given, rest []string, errs []error) {
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return flags, args[1:], errs
		}
		if !isFlag(arg) {
			return flags, args, errs
		}
		args = args[1:]
		more, err := matchFlag(arg, table)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if last := &more[len(more)-1]; last.option.value != "" && last.value == "" {
			if len(args) == 0 || isFlag(args[0]) {
				errs = append(errs, fmt.Errorf("%s needs a value", last.from))
				continue
			}
			last.value, args = args[0], args[1:]
		}
		for i := range more {
			more[i].value = strings.TrimPrefix(more[i].value, attached)
		}
		flags = append(flags, more...)
	}
	return flags, nil, errs
}

// attached marks a value that was written behind the flag, which may be empty.
const attached = "\x00"

// isFlag tells a flag from a value: a negative number, a lone dash and a text with
// blanks are values.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' || strings.Contains(arg, " ") && !strings.HasPrefix(arg, "--") {
		return false
	}
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil
}

func matchFlag(arg string, table []option) ([]given, error) {
	if !strings.HasPrefix(arg, "--") {
		return matchShort(arg, table)
	}
	name, value, hasValue := strings.Cut(arg, "=")
	o, err := find(name, table)
	if err != nil {
		return nil, err
	}
	if !hasValue {
		return []given{{o, name, ""}}, nil
	}
	if o.value == "" {
		return nil, fmt.Errorf("%s takes no value", name)
	}
	return []given{{o, name, attached + value}}, nil
}

// matchShort reads -m, -r3, -r=3, and switches in one word as in -mh.
func matchShort(arg string, table []option) (list []given, err error) {
	for i := 1; i < len(arg); i++ {
		at := slices.IndexFunc(table, func(o option) bool { return o.short == arg[i] })
		if at < 0 {
			return nil, fmt.Errorf("unknown flag %s", arg)
		}
		g := given{&table[at], "-" + arg[i:i+1], ""}
		if g.option.value != "" {
			if value := arg[i+1:]; value != "" {
				g.value = attached + strings.TrimPrefix(value, "=")
			}
			return append(list, g), nil
		}
		list = append(list, g)
	}
	return list, nil
}

// find matches a long flag: its name in either spelling, else the start of exactly
// one of torchrun's.
func find(written string, table []option) (*option, error) {
	name := strings.ReplaceAll(written[2:], "_", "-")
	var near []string
	var found *option
	for i := range table {
		o := &table[i]
		if o.name == name {
			return o, nil
		}
		if !o.ours && strings.HasPrefix(o.name, name) {
			found, near = o, append(near, "--"+o.name)
		}
	}
	switch len(near) {
	case 0:
		return nil, fmt.Errorf("unknown flag %s: %s", written, meant(name, table))
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%s is ambiguous: %s", written, strings.Join(near, ", "))
}

// meant says what somebody who wrote an unknown flag may have wanted: a flag that
// begins as most of it does, else one of the script's own.
func meant(name string, table []option) string {
	best, length := "", 0
	for _, o := range table {
		n := 0
		for n < min(len(name), len(o.name)) && name[n] == o.name[n] {
			n++
		}
		if n > length {
			best, length = o.name, n
		}
	}
	if 3*length >= 2*len(name) && length > 0 {
		return "did you mean --" + best + "?"
	}
	return "flags of the script go behind it"
}

// uuid is a random one, version 4 (RFC 9562, section 5.4).
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
