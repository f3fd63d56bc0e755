package group

import (
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/nd"
)

// Config is who an agent is, and how patient it is.
type Config struct {
	Self coord.Admission
	Job  coord.Job // for the agent that forms it

	// Form is the first view, of which this agent is the first, where it is this agent that
	// forms the job. One agent of a job does.
	Form []coord.Member
	// Start is how far the job was when it was ended, for the agent that forms it.
	Start coord.Progress
	// Contacts are where other agents may be: whoever forms no job asks them to be
	// admitted.
	Contacts []string

	// Share gives a sealed view that is equal to one that this agent has come to know: where thousands
	// of nodes are simulated in one process, they share one. Nil, as in an agent: its own.
	Share func(*coord.View) *coord.View

	Beat time.Duration // between what leaders, followers and agents say
	// Silence is how long a voter hears nothing of the leader before it stands; each
	// further voter waits Stagger longer.
	Silence, Stagger time.Duration
	// Quiet is how long nothing more must come before changes are made one view,
	// Patience how long the first of them waits at most: a rack that is lost is one
	// change.
	Quiet, Patience time.Duration
	// Grace is how long an agent that gossip holds for dead may still come back.
	Grace time.Duration
	// Stall is how long a rank of an async job may commit nothing while others have nothing left to
	// do: then they get what it has, and what it commits of that is void. It is doubled with each time
	// that nothing came of, so that work which takes longer than this comes to an end too.
	Stall time.Duration
}

// Default is for networks of a cluster: a killed node is out of the view a bit more than
// the grace after gossip has found it. A rank that stands still for half a minute, longer than
// batches and checkpoints are likely to take, does not hold the end of an epoch up.
func Default() Config {
	return Config{
		Beat: 100 * time.Millisecond, Silence: time.Second, Stagger: 200 * time.Millisecond,
		Quiet: 200 * time.Millisecond, Patience: 2 * time.Second, Grace: 5 * time.Second, Stall: 30 * time.Second,
	}
}

// Fast is for small jobs on a calm network.
func Fast() Config {
	c := Default()
	c.Beat, c.Silence, c.Stagger = 50*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	c.Quiet, c.Patience, c.Grace, c.Stall = 100*time.Millisecond, time.Second, time.Second, 10*time.Second
	return c
}

// unreadable is what others could not read of this agent: the entry by which it comes into
// the job. It would wait for ever.
func (c *Config) unreadable() error {
	var entry coord.Entry = &coord.Change{Admit: []coord.Admission{c.Self}}
	if len(c.Form) > 0 {
		entry = &coord.Form{Job: c.Job, Members: c.Form, Start: c.Start}
	}
	_, err := coord.ParseEntry(coord.AppendEntry(nil, entry))
	return err
}

// Validate reports everything that is wrong with the config.
func (c *Config) Validate() error {
	var wrong []string
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Beat", c.Beat, time.Millisecond},
		{"Silence", c.Silence, 3 * c.Beat},
		{"Stagger", c.Stagger, c.Beat},
		{"Quiet", c.Quiet, 0},
		{"Patience", c.Patience, c.Quiet},
		{"Grace", c.Grace, 0},
		{"Stall", c.Stall, c.Beat},
	} {
		if d.value < d.least {
			wrong = append(wrong, fmt.Sprintf("%s is %v, must be at least %v", d.name, d.value, d.least))
		}
	}
	if c.Self.ID.Raft() == 0 {
		wrong = append(wrong, fmt.Sprintf("Self.ID is %s: its first eight bytes are a number that is not 0", c.Self.ID))
	}
	if len(c.Form) == 0 && len(c.Contacts) == 0 {
		wrong = append(wrong, "neither Form nor Contacts: there is no way into a job")
	}
	if len(c.Form) > 0 && c.Form[0].ID != c.Self.ID {
		wrong = append(wrong, "Form does not begin with this agent")
	}
	if err := c.Job.Validate(); len(c.Form) > 0 && err != nil {
		wrong = append(wrong, err.Error())
	}
	if why := c.unreadable(); why != nil {
		wrong = append(wrong, fmt.Sprintf("what this agent says of itself cannot be read by others: %v", why))
	}
	if len(wrong) > 0 {
		return nd.Errorf(nd.ErrConfig, "agent: %s", strings.Join(wrong, "; "))
	}
	return nil
}
