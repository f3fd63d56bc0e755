package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/internal/sealed"
	"github.com/headrace/headrace/nd"
)

// Config is a node's agent. Fields at their zero value take the default named beside
// them.
type Config struct {
	Job    string // name of the run: agents of another one are not heard
	Name   string // of this host, for people
	Rack   string // what fails together with this host; may be empty
	Listen string // host:port of the agent, TCP and UDP; port 0 picks one. Default 127.0.0.1:0
	// Advertise is the host:port by which others reach it. Default: what it listens on.
	Advertise string
	Contacts  []string // host:port of other agents
	// Form has this agent form the job. One agent of a job does: the launcher's first
	// node, or the one that says so. With Contacts it asks them first, and forms the job if
	// none of them has heard of it: such an agent can be started again. Started again while no
	// contact can be reached, it forms a second job of the same name: Expect, all ranks of the
	// job, has nothing handed out in that one, and is wanted then.
	Form bool
	// Await has the agent take no ranks before Meet says who else is there.
	Await bool
	// Expect is how many ranks must be there before anything is delivered. Default 1.
	Expect int
	// Witness is an agent without ranks: it only decides.
	Witness bool
	// Key is what all agents of the job know. Without one it listens on loopback alone.
	Key []byte
	// Alone is how long this agent hears of no majority of the voters, or before there is a
	// view of nobody of the job, until it gives up: its ranks hear the reason and end, and so
	// does Serve. Default 5 minutes, which outlast a switch that starts again; a negative one
	// waits for ever.
	Alone time.Duration
	// Profile is default or fast. Default "default".
	Profile string
	// Release is the version of headrace, for people.
	Release string
	// Observe is where Serve shows the agent; without an Addr it does not.
	Observe Observing

	Listener Listener

	// Flags are what whoever sets a field calls it, for errors: of a command line its flags. One
	// that is not there has its name here.
	Flags map[string]string

	lookup func(ctx context.Context, host string) ([]net.IP, error) // nil: the system's
}

// Listener is told what happens. Its functions must not wait, and may be nil.
type Listener struct {
	Event   func(Event)
	Changed func() // what Look shows is new
}

// Stalled is the kind of the event that a rank has committed nothing for so long that another one has
// its positions. Agents that vote tell it.
const Stalled = "stalled"

// Event is something that happened, as a line for a log.
type Event struct {
	Time time.Time
	Kind string
	Text string
}

func (c *Config) fill() {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Profile == "" {
		c.Profile = "default"
	}
	if c.Alone == 0 {
		c.Alone = defaultAlone
	}
	c.Expect = max(1, c.Expect)
}

// flag is how errors call a field.
func (c *Config) flag(field string) string { return cmp.Or(c.Flags[field], field) }

const defaultAlone = 5 * time.Minute

// Validate reports everything that is wrong with the config.
func (c Config) Validate() error {
	v := violations{c: &c}
	v.check(c.Expect >= 0 && c.Expect <= coord.MaxRanks, "%s %d: ranks are 1 to %d", c.flag("Expect"), c.Expect, coord.MaxRanks)
	c.fill()
	v.check(c.Job != "", "%s is empty: agents of one job have one name", c.flag("Job"))
	for field, text := range map[string]string{"Job": c.Job, "Name": c.Name, "Rack": c.Rack, "Advertise": c.Advertise} {
		v.check(len(text) <= coord.MaxText, "%s has %d bytes, at most %d are taken", c.flag(field), len(text), coord.MaxText)
	}
	v.check(c.Profile == "default" || c.Profile == "fast", "%s is %.80q: default or fast", c.flag("Profile"), c.Profile)
	v.check(len(c.Key) == 0 || len(c.Key) >= sealed.MinKey, "%s: the key has %d bytes, at least %d are wanted", c.flag("Key"), len(c.Key), sealed.MinKey)
	v.forming()
	v.addresses()
	v.observing()
	if len(v.wrong) > 0 {
		slices.Sort(v.wrong) // maps have no order
		return nd.Errorf(nd.ErrConfig, "agent: %s", strings.Join(v.wrong, "; "))
	}
	return nil
}

// violations are what is wrong with a config.
type violations struct {
	c     *Config
	wrong []string
}

func (v *violations) check(ok bool, format string, args ...any) {
	if !ok {
		v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
	}
}

func (v *violations) forming() {
	c := v.c
	form, contacts, expect := c.flag("Form"), c.flag("Contacts"), c.flag("Expect")
	v.check(c.Form || c.Await || len(c.Contacts) > 0, "neither %s nor %s: there is no way into a job; give one agent %s, and the others %s with its address", form, contacts, form, contacts)
	v.check(!c.Form || len(c.Contacts) == 0 || c.Expect > 1, "%s with %s and %s %d: started again while no contact answers, this agent would form a second job and hand everything out once more; give %s the number of all ranks, or no %s", form, contacts, expect, c.Expect, expect, contacts)
	v.check(!c.Form || !c.Witness, "%s: a witness cannot form the job: it does not know what the ranks mean by it", form)
}

func (v *violations) addresses() {
	c := v.c
	for _, contact := range c.Contacts {
		v.address("Contacts", contact)
	}
	if c.Advertise != "" {
		v.address("Advertise", c.Advertise)
	}
	host, _, err := splitAddress(c.Listen)
	v.check(err == nil, "%s %.80q: host:port is wanted, with a port in 0 to 65535", c.flag("Listen"), c.Listen)
	if err != nil {
		return
	}
	v.check(len(c.Key) > 0 || onLoopback(host), "%s is %q, off loopback, without a key: give one (%s)", c.flag("Listen"), c.Listen, cmp.Or(c.Flags["Key"], "HEADRACE_KEY_FILE"))
	v.check(c.Await || c.Advertise != "" || !anyHost(host), "%s is %q, all addresses of this host: name the one by which others reach it (%s)", c.flag("Listen"), c.Listen, c.flag("Advertise"))
}

// address checks one at which somebody is to be reached.
func (v *violations) address(field, text string) {
	host, port, err := splitAddress(text)
	switch {
	case err != nil || host == "":
		v.check(false, "%s %.80q: host:port is wanted, with a port in 1 to 65535", v.c.flag(field), text)
	case port == 0:
		v.check(false, "%s %.80q: nobody is reached at port 0", v.c.flag(field), text)
	case anyHost(host):
		v.check(false, "%s %.80q: that is any address: name one", v.c.flag(field), text)
	}
}

func (v *violations) observing() {
	c, o := v.c, v.c.Observe
	v.check(len(c.Key) == 0 || o.Key != string(c.Key), "%s: the key of the metrics is that of the job: give another one, for it goes in the clear", c.flag("Observe.Key"))
	if o.Addr == "" {
		return
	}
	host, _, err := splitAddress(o.Addr)
	v.check(err == nil, "%s %.80q: host:port is wanted, with a port in 0 to 65535", c.flag("Observe.Addr"), o.Addr)
	v.check(err != nil || o.Key != "" || onLoopback(host), "%s %.80q is off loopback, without a key: give one (%s)", c.flag("Observe.Addr"), o.Addr, c.flag("Observe.Key"))
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// anyHost reports that a host stands for all addresses of this one.
func anyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// profile is how patient the group is.
func (c *Config) profile() group.Config {
	if c.Profile == "fast" {
		return group.Fast()
	}
	return group.Default()
}

// asking is how long an agent that may form the job asks the contacts for it first: each
// of them twice, and a bit for a connection to open.
func (c *Config) asking() time.Duration {
	return time.Second + time.Duration(2*group.SearchEvery*min(len(c.Contacts), mostAsked))*c.profile().Beat
}

// mostAsked bounds that for long lists of contacts.
const mostAsked = 8

// errEnded is that of an agent that was closed.
var errEnded = errors.New("the agent has ended")
