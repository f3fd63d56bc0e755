package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// scenarioVersion is that of the text.
const scenarioVersion = 1

// String writes a scenario as text, which Parse reads: a line for each thing, words and
// fields with their names.
func (sc *Scenario) String() string {
	var b strings.Builder
	j, n := &sc.Job, &sc.Network
	fmt.Fprintf(&b, "scenario %d\nseed %d\nprofile %v\n", scenarioVersion, sc.Seed, sc.Profile)
	fmt.Fprintf(&b, "job mode=%v n=%d steps=%d epochs=%d voters=%d expect=%d lease=%d ahead=%d reserve=%d\n", j.Mode, j.N, j.Steps, j.Epochs, j.Voters, j.Expect, j.Lease, j.Ahead, j.Reserve)
	b.WriteString("ranks")
	for _, ranks := range sc.Ranks {
		fmt.Fprintf(&b, " %d", ranks)
	}
	fmt.Fprintf(&b, "\nrack %d\npace %v\nduration %v\n", sc.Rack, sc.Pace, sc.Duration)
	fmt.Fprintf(&b, "network latency=%v jitter=%v loss=%g double=%g reorder=%g corrupt=%g\n", n.Latency, n.Jitter, n.Loss, n.Double, n.Reorder, n.Corrupt)
	if sc.Break != coord.NoFault {
		fmt.Fprintf(&b, "break %d\n", sc.Break)
	}
	for _, a := range sc.Actions {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}

// Parse reads a scenario. Empty lines and what is behind a # do not count.
func Parse(r io.Reader) (Scenario, error) {
	sc := Scenario{Job: coord.Job{Name: "job", Plan: "plan"}, Rack: 1}
	room := &io.LimitedReader{R: r, N: mostText + 1}
	lines := bufio.NewScanner(room)
	lines.Buffer(nil, mostLine)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if err := sc.line(words); err != nil {
			return sc, nd.Errorf(nd.ErrConfig, "scenario, line %d: %w", number, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return sc, nd.Errorf(nd.ErrConfig, "scenario: a line longer than %d bytes", mostLine)
	case err != nil:
		return sc, nd.Errorf(nd.ErrIO, "scenario: %w", err)
	}
	if room.N == 0 {
		return sc, nd.Errorf(nd.ErrConfig, "scenario: longer than %d bytes", mostText)
	}
	return sc, sc.Validate()
}

// Bounds of what a scenario may ask for.
const (
	mostText      = 16 << 20 // bytes
	mostLine      = 1 << 20
	MostNodes     = 1 << 14
	MostRanks     = 1 << 10 // of a node
	mostWorld     = 1 << 17
	mostPositions = 1 << 26
)

// Validate says what is wrong with a scenario.
func (sc *Scenario) Validate() error {
	if len(sc.Ranks) == 0 || len(sc.Ranks) > MostNodes {
		return nd.Errorf(nd.ErrConfig, "scenario: %d nodes, 1 to %d can be", len(sc.Ranks), MostNodes)
	}
	world := 0
	for _, ranks := range sc.Ranks {
		if ranks < 0 || ranks > MostRanks {
			return nd.Errorf(nd.ErrConfig, "scenario: %d ranks of a node, 0 to %d can be", ranks, MostRanks)
		}
		world += ranks
	}
	if world > mostWorld {
		return nd.Errorf(nd.ErrConfig, "scenario: %d ranks, at most %d can be", world, mostWorld)
	}
	if sc.Rack < 1 || min(sc.Pace, sc.Duration) < 0 || max(sc.Pace, sc.Duration) > mostTime {
		return nd.Errorf(nd.ErrConfig, "scenario: rack is at least 1, pace and duration are 0 to %v", mostTime)
	}
	if err := sc.Network.validate(); err != nil {
		return err
	}
	for i := range sc.Actions {
		if err := sc.Actions[i].check(); err != nil {
			return err
		}
	}
	if sc.Job.Mode == coord.Async && sc.Job.N > mostPositions {
		return nd.Errorf(nd.ErrConfig, "scenario: n is %d, at most %d can be watched one by one", sc.Job.N, mostPositions)
	}
	if sc.Break != coord.NoFault && !canBreak {
		return nd.Errorf(nd.ErrUnsupported, "scenario: bug %d can be switched on in a build with the tag coordfault only", sc.Break)
	}
	return sc.Job.Validate()
}

func (sc *Scenario) line(words []string) (err error) {
	value := strings.Join(words[1:], " ")
	switch words[0] {
	case "scenario":
		if value != strconv.Itoa(scenarioVersion) {
			return fmt.Errorf("version %q, this program reads %d", value, scenarioVersion)
		}
	case "seed":
		sc.Seed, err = strconv.ParseUint(value, 10, 64)
	case "profile":
		sc.Profile, err = ParseProfile(value)
	case "rack":
		sc.Rack, err = strconv.Atoi(value)
	case "pace":
		sc.Pace, err = time.ParseDuration(value)
	case "duration":
		sc.Duration, err = time.ParseDuration(value)
	case "break":
		var n int
		n, err = strconv.Atoi(value)
		sc.Break = coord.Fault(n)
	case "ranks":
		for _, word := range words[1:] {
			n, bad := strconv.Atoi(word)
			if bad != nil {
				return bad
			}
			sc.Ranks = append(sc.Ranks, n)
		}
	case "job":
		return fields(words[1:], sc.jobField)
	case "network":
		return fields(words[1:], sc.Network.field)
	case "at":
		a, err := parseAction(words[1:])
		sc.Actions = append(sc.Actions, a)
		return err
	default:
		return fmt.Errorf("%q is not known", words[0])
	}
	return err
}

// fields gives each name=value to a function.
func fields(words []string, take func(name, value string) error) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if err := take(name, value); err != nil {
			return fmt.Errorf("%q: %w", word, err)
		}
	}
	return nil
}

func (sc *Scenario) jobField(name, value string) (err error) {
	if name == "mode" {
		sc.Job.Mode, err = coord.ParseMode(value)
		return err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch name {
	case "n":
		sc.Job.N = n
	case "steps":
		sc.Job.Steps = n
	case "epochs":
		sc.Job.Epochs = n
	case "voters":
		sc.Job.Voters = int(n)
	case "expect":
		sc.Job.Expect = int(n)
	case "lease":
		sc.Job.Lease = n
	case "ahead":
		sc.Job.Ahead = n
	case "reserve":
		sc.Job.Reserve = n
	default:
		return fmt.Errorf("a job has no %q", name)
	}
	return err
}

func (n *Network) validate() error {
	if min(n.Latency, n.Jitter) < 0 || max(n.Latency, n.Jitter) > time.Minute {
		return nd.Errorf(nd.ErrConfig, "scenario: latency and jitter are 0 to 1m")
	}
	for _, share := range []float64{n.Loss, n.Double, n.Reorder, n.Corrupt} {
		if !(share >= 0 && share <= 1) { // NaN neither
			return nd.Errorf(nd.ErrConfig, "scenario: loss, double, reorder and corrupt are 0 to 1")
		}
	}
	return nil
}

func (n *Network) field(name, value string) (err error) {
	switch name {
	case "latency":
		n.Latency, err = time.ParseDuration(value)
	case "jitter":
		n.Jitter, err = time.ParseDuration(value)
	case "loss":
		n.Loss, err = strconv.ParseFloat(value, 64)
	case "double":
		n.Double, err = strconv.ParseFloat(value, 64)
	case "reorder":
		n.Reorder, err = strconv.ParseFloat(value, 64)
	case "corrupt":
		n.Corrupt, err = strconv.ParseFloat(value, 64)
	default:
		return fmt.Errorf("a network has no %q", name)
	}
	return err
}

// ParseProfile reads what Profile.String writes.
func ParseProfile(name string) (Profile, error) {
	for _, p := range []Profile{Default, Fast} {
		if name == p.String() {
			return p, nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "profile %q: default or fast", name)
}
