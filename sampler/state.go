package sampler

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/headrace/headrace/nd"
)

const (
	// stateFormat is the version of State. A reader refuses what it does not know.
	stateFormat = 1

	// maxState bounds what ParseState looks at: a state has about 220 bytes, and
	// white space is allowed.
	maxState = 4096
)

// State is a place in a stream's sequence of batches, small enough for any
// checkpoint. It is the same on every rank that has got the same number of
// batches, and fits any number of ranks. It holds no more than a position, since
// an order needs no buffer; digests and counts belong to the report of an epoch.
type State struct {
	Format      int    `json:"format"`
	Fingerprint string `json:"fingerprint"`
	Seed        uint64 `json:"seed"`
	Epoch       int64  `json:"epoch"`
	// NextPosition is the first position of the epoch that was not delivered; N once
	// the epoch is over, also where TailDrop left some out. What is under way is not
	// delivered.
	NextPosition int64  `json:"next_position"`
	Global       int64  `json:"global"`
	N            int64  `json:"n"`
	Shuffle      bool   `json:"shuffle"`
	Tail         string `json:"tail"`
	// Block is that of the stream, or BlocksOfSource. The plan hash tells which those
	// were.
	Block  int64  `json:"block"`
	Window int    `json:"window"`
	Plan   string `json:"plan"` // PlanHash of the stream
}

// State is the place of a stream before a step of an epoch: all steps before it
// are delivered. A step from Steps on is the end of the epoch.
func (s Stream) State(epoch, step int64) State {
	next := s.N
	if step < s.Steps() {
		next = max(0, step) * s.Global
	}
	return State{
		Format: stateFormat, Fingerprint: s.Fingerprint, Seed: s.Seed,
		Epoch: epoch, NextPosition: next, Global: s.Global,
		N: s.N, Shuffle: s.Shuffle, Tail: s.Tail.String(),
		Block: s.blockName(), Window: s.Window, Plan: s.PlanHash(),
	}
}

// BlocksOfSource is the Block of a State whose stream had Blocks.
const BlocksOfSource = -1

func (s Stream) blockName() int64 {
	if s.Blocks != nil {
		return BlocksOfSource
	}
	return s.Block
}

// ParseState reads a state as encoding/json writes it. All names must be there, once,
// and no others: a state of a later version must not be taken for one of this, nor
// one that lost its position for the start of an epoch.
func ParseState(doc []byte) (State, error) {
	if len(doc) > maxState {
		return State{}, nd.Errorf(nd.ErrConfig, "state: %d bytes, a state has at most %d", len(doc), maxState)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	var s State
	err := d.Decode(&s)
	if err == nil {
		err = checkNames(doc)
	}
	if err != nil {
		return State{}, nd.Errorf(nd.ErrConfig, "state: %w", err)
	}
	return s, nil
}

// checkNames refuses what encoding/json takes in silence: a name that is missing, is
// written with other capitals, or is there twice, and null.
func checkNames(doc []byte) error {
	names, err := members(doc)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(State{})
	if err != nil {
		return err
	}
	wanted, err := members(whole)
	if err != nil {
		return err
	}
	var missing []string
	for name := range wanted {
		if value, ok := names[name]; !ok || string(value) == "null" {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		slices.Sort(missing)
		return errors.New("without " + strings.Join(missing, ", "))
	case len(names) > len(wanted):
		return errors.New("a name is there with other capitals too")
	}
	return nil
}
