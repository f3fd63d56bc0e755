package agentapi

import (
	"encoding/json"
	"fmt"

	"github.com/headrace/headrace/nd"
)

// Limits of a plan.
const (
	maxName  = 256     // bytes of each string
	maxWorld = 1 << 20 // ranks
	maxSpans = 1 << 16 // of one rank
)

// Plan is what one rank is about to load: what all ranks must agree on, and the
// rank's own positions of the first step.
type Plan struct {
	// Check names the comparison: all ranks of a round that take part in it use the
	// same name, "train", say, or the loader's number in the process.
	Check string `json:"check"`
	Rank  int    `json:"rank"`
	World int    `json:"world"`

	PlanHash    string `json:"plan_hash"`
	Fingerprint string `json:"fingerprint"`
	N           int64  `json:"n"`
	Global      int64  `json:"global"`
	Seed        uint64 `json:"seed"`
	Epoch       int64  `json:"epoch"`
	Tail        string `json:"tail"`
	Block       int64  `json:"block"`
	Window      int    `json:"window"`
	Replicas    int    `json:"replicas"` // ranks that load the same positions; 0 is 1

	Batch nd.Span   `json:"-"` // positions of the first global batch, the same on all ranks
	Own   []nd.Span `json:"-"` // those of them that this rank loads, ascending and disjoint
}

// planDoc is a plan as it is sent: spans are pairs.
type planDoc struct {
	plainPlan
	Batch [2]int64   `json:"batch"`
	Own   [][2]int64 `json:"own"`
}

type plainPlan Plan // without Plan's methods

// MarshalJSON writes spans as pairs [start, stop].
func (p Plan) MarshalJSON() ([]byte, error) {
	doc := planDoc{plainPlan: plainPlan(p), Batch: [2]int64{p.Batch.Start, p.Batch.Stop}, Own: make([][2]int64, len(p.Own))}
	for i, s := range p.Own {
		doc.Own[i] = [2]int64{s.Start, s.Stop}
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Plan) UnmarshalJSON(text []byte) error {
	var doc planDoc
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	*p = Plan(doc.plainPlan)
	p.Batch = nd.Span{Start: doc.Batch[0], Stop: doc.Batch[1]}
	p.Own = make([]nd.Span, len(doc.Own))
	for i, s := range doc.Own {
		p.Own[i] = nd.Span{Start: s[0], Stop: s[1]}
	}
	return nil
}

// Validate checks what can be wrong with one plan alone.
func (p *Plan) Validate() error {
	for _, text := range []string{p.Check, p.PlanHash, p.Fingerprint, p.Tail} {
		if len(text) > maxName {
			return nd.Errorf(nd.ErrConfig, "plan: a name of %d bytes, at most %d are taken", len(text), maxName)
		}
	}
	if p.World < 1 || p.World > maxWorld || p.Rank < 0 || p.Rank >= p.World {
		return nd.Errorf(nd.ErrConfig, "plan: rank %d of a world of %d", p.Rank, p.World)
	}
	if p.Replicas < 0 || p.World%max(p.Replicas, 1) != 0 {
		return nd.Errorf(nd.ErrConfig, "plan of rank %d: a world of %d is no multiple of %d replicas", p.Rank, p.World, p.Replicas)
	}
	if len(p.Own) > maxSpans {
		return nd.Errorf(nd.ErrBudget, "plan of rank %d: %d spans, at most %d are taken", p.Rank, len(p.Own), maxSpans)
	}
	if p.Batch.Start < 0 || p.Batch.Stop < p.Batch.Start {
		return nd.Errorf(nd.ErrConfig, "plan of rank %d: batch %s", p.Rank, positions(p.Batch))
	}
	return p.validateOwn()
}

func (p *Plan) validateOwn() error {
	at := p.Batch.Start
	for _, s := range p.Own {
		if s.Start < at || s.Stop <= s.Start || s.Stop > p.Batch.Stop {
			return nd.Errorf(nd.ErrConfig, "plan of rank %d: positions %s are empty, out of order or outside batch %s", p.Rank, positions(s), positions(p.Batch))
		}
		at = s.Stop
	}
	return nil
}

// positions writes a span as the messages name it.
func positions(s nd.Span) string { return fmt.Sprintf("[%d, %d)", s.Start, s.Stop) }
