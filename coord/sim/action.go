package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/nd"
)

// Kind is one of the faults.
type Kind string

// The menu.
const (
	Kill      Kind = "kill"      // a node ends at once, after N more messages; By later it starts again as another member
	Stop      Kind = "stop"      // a node stands still (SIGSTOP): messages wait and come at once
	Cut       Kind = "cut"       // Who does not reach Other; N 2: nor Other Who
	Flap      Kind = "flap"      // the link between Who and Other fails and heals, every By
	Partition Kind = "partition" // the nodes of Set and the others do not reach each other
	Rack      Kind = "rack"      // the same, for a rack; N 1: it is killed
	Split     Kind = "split"     // the same, for half of the voters and as many others
	Doubt     Kind = "doubt"     // gossip at Who holds Other for dead
	Noise     Kind = "noise"     // messages are lost, doubled, reordered and corrupted
	Slow      Kind = "slow"      // messages of Who take By longer
	Leave     Kind = "leave"     // a node leaves; By later it comes as another member
	Join      Kind = "join"      // N nodes come
	Twin      Kind = "twin"      // a node with the raft number of Who comes, and must be refused
	Alien     Kind = "alien"     // a node of another version (N 0), plan (1) or job (2) comes, and must be refused
	Stall     Kind = "stall"     // the trainer at Who pulls nothing
	Hang      Kind = "hang"      // the trainer at Who, of an async job, does nothing more, and its process lives
	Rank      Kind = "rank"      // local rank N of Who ends, and comes again
	Redo      Kind = "redo"      // the trainer goes N steps back
	Drift     Kind = "drift"     // Who's clock runs N/1000 faster
	Jump      Kind = "jump"      // Who's clock is By later at once: the host was suspended. A monotonic clock never goes back
)

// Kinds lists the menu.
func Kinds() []Kind {
	return []Kind{Kill, Stop, Cut, Flap, Partition, Rack, Split, Doubt, Noise, Slow, Leave, Join, Twin, Alien, Stall, Hang, Rank, Redo, Drift, Jump}
}

// Target is a node: its number, or what it is at that time (leader, voter, follower,
// rank0).
type Target string

// node is the target with a number.
func node(place int) Target { return Target(strconv.Itoa(place)) }

// Action is a fault at a time.
type Action struct {
	At         time.Duration
	Kind       Kind
	Who, Other Target
	For, By    time.Duration
	N          int
	Set        []int
}

// end is when the fault is over, and what it took away is back.
func (a *Action) end() time.Duration {
	if a.Kind == Jump {
		return a.At + time.Second
	}
	return a.At + max(a.For, a.By) + time.Second
}

// Bounds of a fault.
const (
	mostTime   = 24 * time.Hour
	leastFlap  = time.Millisecond
	mostDrift  = 500     // a clock that stood still, or went back, would be none
	mostNumber = 1 << 20 // of messages, steps or ranks
)

// check finds a fault that cannot be.
func (a *Action) check() error {
	least, most, what := 0, mostNumber, "n"
	switch a.Kind {
	case Drift:
		least, most, what = -mostDrift, mostDrift, "n, thousandths"
	case Noise:
		most, what = 100, "n, per cent"
	case Join:
		most, what = MostNodes, "n, nodes"
	}
	switch {
	case a.Kind == Jump && a.By < 0:
		return nd.Errorf(nd.ErrConfig, "jump by %v: a monotonic clock never goes back", a.By)
	case min(a.At, a.For, a.By) < 0 || max(a.At, a.For, a.By) > mostTime:
		return nd.Errorf(nd.ErrConfig, "%v: times of a fault are 0 to %v", *a, mostTime)
	case a.Kind == Flap && a.By < leastFlap:
		return nd.Errorf(nd.ErrConfig, "%v: by is at least %v", *a, leastFlap)
	case a.N < least || a.N > most:
		return nd.Errorf(nd.ErrConfig, "%v: %s, are %d to %d", *a, what, least, most)
	}
	return nil
}

// String writes an action as a line of a scenario.
func (a Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v %s", a.At, a.Kind)
	field := func(name string, value any, there bool) {
		if there {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	field("who", a.Who, a.Who != "")
	field("other", a.Other, a.Other != "")
	field("for", a.For, a.For != 0)
	field("by", a.By, a.By != 0)
	field("n", a.N, a.N != 0)
	var set []string
	for _, place := range a.Set {
		set = append(set, strconv.Itoa(place))
	}
	field("set", strings.Join(set, ","), len(set) > 0)
	return b.String()
}

// parseAction reads the words behind "at".
func parseAction(words []string) (a Action, err error) {
	if len(words) < 2 {
		return a, nd.Errorf(nd.ErrConfig, "a time and a fault are wanted")
	}
	if a.At, err = time.ParseDuration(words[0]); err != nil {
		return a, nd.Errorf(nd.ErrConfig, "time %q: %v", words[0], err)
	}
	a.Kind = Kind(words[1])
	if !slices.Contains(Kinds(), a.Kind) {
		return a, nd.Errorf(nd.ErrConfig, "fault %q: there are %v", a.Kind, Kinds())
	}
	for _, word := range words[2:] {
		if err := a.set(word); err != nil {
			return a, err
		}
	}
	return a, a.check()
}

func (a *Action) set(word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "who":
		a.Who, err = parseTarget(value)
	case "other":
		a.Other, err = parseTarget(value)
	case "for":
		a.For, err = time.ParseDuration(value)
	case "by":
		a.By, err = time.ParseDuration(value)
	case "n":
		a.N, err = strconv.Atoi(value)
	case "set":
		for item := range strings.SplitSeq(value, ",") {
			place, bad := strconv.Atoi(item)
			a.Set, err = append(a.Set, place), bad
			if bad != nil {
				break
			}
		}
	default:
		return nd.Errorf(nd.ErrConfig, "%q: who, other, for, by, n and set can be said of a fault", word)
	}
	if err != nil {
		return nd.Errorf(nd.ErrConfig, "%q: %v", word, err)
	}
	return nil
}

// roles are the targets that are not numbers.
func roles() []Target { return []Target{"leader", "voter", "follower", "rank0"} }

func parseTarget(text string) (Target, error) {
	if t := Target(text); slices.Contains(roles(), t) {
		return t, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return "", nd.Errorf(nd.ErrConfig, "node %q: a number, or one of %v", text, roles())
	}
	return node(n), nil
}
