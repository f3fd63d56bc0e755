package agentapi

import (
	"encoding/json"
	"errors"

	"github.com/headrace/headrace/nd"
)

// The types of messages, see the package's documentation.
const (
	typeHello   = "hello"
	typeError   = "error"
	typeStats   = "stats"
	typePlan    = "plan"
	typeChecked = "checked"

	typeAttach   = "attach"
	typeDetach   = "detach"
	typeProgress = "progress"
	typeCommit   = "commit"
	typeRedo     = "redo"
	typeState    = "state"
)

// What a server may offer.
const (
	OfferStats     = "stats"
	OfferPlanCheck = "plancheck"
	OfferCoord     = "coord"
)

// Hello is who a client is.
type Hello struct {
	PID       int    `json:"pid"`
	RunID     string `json:"run_id"`
	Rank      int    `json:"rank"`
	World     int    `json:"world"`
	LocalRank int    `json:"local_rank"`
	Round     int    `json:"round"` // -1: not known
}

// MaxStats is the largest number of values of a Stats.
const MaxStats = 256

// Stats are a loader's numbers by name: small letters, digits and underscores.
type Stats map[string]float64

// Validate checks names and count.
func (s Stats) Validate() error {
	if len(s) > MaxStats {
		return nd.Errorf(nd.ErrBudget, "stats of %d values, at most %d are taken", len(s), MaxStats)
	}
	for name := range s {
		if !statName(name) {
			return nd.Errorf(nd.ErrConfig, "stats: the name %.80q is not made of small letters, digits and underscores", name)
		}
	}
	return nil
}

func statName(name string) bool {
	if name == "" || len(name) > 64 || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// message is any message.
type message struct {
	Type     string `json:"type"`
	Protocol string `json:"protocol,omitempty"`
	Version  int    `json:"version,omitempty"`
	*Hello
	Offers []string  `json:"offers,omitempty"`
	Stats  Stats     `json:"stats,omitempty"`
	ID     uint64    `json:"id,omitempty"`
	Plan   *Plan     `json:"plan,omitempty"`
	Error  *errorDoc `json:"error,omitempty"`

	// Seat numbers the attaches of a connection, from 1: what is said of one does not
	// concern the next.
	Seat     uint64    `json:"seat,omitempty"`
	Attach   *Attach   `json:"attach,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	Parts    []Part    `json:"parts,omitempty"`
	Redo     *Redo     `json:"redo,omitempty"`
	State    *JobState `json:"state,omitempty"`
	Decided  []Decided `json:"decided,omitempty"`

	seat *Seat // whose state is to be put in when it is sent
}

// parseMessage reads one message and checks all that needs no context.
func parseMessage(text []byte) (message, error) {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return m, nd.Errorf(nd.ErrCorrupt, "message: %w", err)
	}
	switch m.Type {
	case typeHello:
		return m, checkHello(&m)
	case typeError:
		if m.Error == nil {
			return m, nd.Errorf(nd.ErrCorrupt, "message: an error without one")
		}
	case typeStats:
		return m, m.Stats.Validate()
	case typePlan:
		if m.Plan == nil {
			return m, nd.Errorf(nd.ErrCorrupt, "message: a plan without one")
		}
		return m, m.Plan.Validate()
	case typeAttach, typeDetach, typeProgress, typeCommit, typeRedo, typeState:
		return m, checkCoordination(&m)
	case typeChecked:
	default:
		return m, nd.Errorf(nd.ErrUnsupported, "message of type %.80q", m.Type)
	}
	return m, nil
}

func checkHello(m *message) error {
	if m.Protocol != Protocol {
		return nd.Errorf(nd.ErrUnsupported, "the other side speaks %.80q, not %s: does HEADRACE_AGENT name the launcher's socket?", m.Protocol, Protocol)
	}
	if m.Version != Version {
		return nd.Errorf(nd.ErrUnsupported, "the other side speaks version %d of %s, this one %d: install the same headrace for launcher and trainer", m.Version, Protocol, Version)
	}
	if m.Hello == nil {
		m.Hello = &Hello{}
	}
	if h := m.Hello; h.World < 0 || h.World > maxWorld || h.Rank < 0 || h.Rank > maxWorld || h.LocalRank < 0 || h.LocalRank > maxWorld {
		return nd.Errorf(nd.ErrConfig, "hello of rank %d (local %d) of %d", h.Rank, h.LocalRank, h.World)
	}
	return nil
}

// errorDoc is an error as it is sent: its kind by name, and its text without it.
type errorDoc struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// kinds pairs the sentinels of nd with their names in messages.
func kinds() []struct {
	name string
	kind error
} {
	return []struct {
		name string
		kind error
	}{
		{"corrupt", nd.ErrCorrupt},
		{"unsupported", nd.ErrUnsupported},
		{"not-found", nd.ErrNotFound},
		{"shape", nd.ErrShape},
		{"io", nd.ErrIO},
		{"device", nd.ErrDevice},
		{"closed", nd.ErrClosed},
		{"budget", nd.ErrBudget},
		{"config", nd.ErrConfig},
		{"bug", nd.ErrBug},
	}
}

func describe(err error) *errorDoc {
	if err == nil {
		return nil
	}
	doc := &errorDoc{Kind: "bug", Text: err.Error()}
	if e, ok := errors.AsType[*nd.Error](err); ok {
		doc.Text = e.Detail
	}
	for _, k := range kinds() {
		if errors.Is(err, k.kind) {
			doc.Kind = k.name
			break
		}
	}
	return doc
}

// err is the error that a document describes. A kind that is not known is a bug of
// the other side.
func (d *errorDoc) err() error {
	if d == nil {
		return nil
	}
	for _, k := range kinds() {
		if d.Kind == k.name {
			return nd.Errorf(k.kind, "%s", d.Text)
		}
	}
	return nd.Errorf(nd.ErrBug, "%s", d.Text)
}
