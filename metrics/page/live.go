package page

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// live makes the answers that the page asks for. An answer has two parts:
//
//	{"tag":T,"slow":{…},"fast":{…},"rank":{…}}
//
// slow is what changes with views and events: who is there. Who sends back its tag
// (?have=T) gets it only when it is another. fast is numbers, by rank in one list, and the
// epoch's coverage in cells. rank is all of one rank, for who asks for it (?rank=R).
type live struct {
	snapshot func() Snapshot
	now      func() time.Time

	mu   sync.Mutex
	at   time.Time // when newest was taken
	last Snapshot
	made update
}

// update is a Snapshot as the page gets it.
type update struct {
	tag        string
	slow, fast []byte
}

// newest is a Snapshot that is not older than fresh, and its parts.
func (l *live) newest() (Snapshot, update) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.at.IsZero() || now.Sub(l.at) >= fresh {
		l.last = l.snapshot()
		l.made, l.at = newUpdate(&l.last), now
	}
	return l.last, l.made
}

func newUpdate(s *Snapshot) update {
	slow, fast := encode(slowOf(s)), encode(fastOf(s))
	h := fnv.New64a()
	_, _ = h.Write(slow) // it never fails
	return update{strconv.FormatUint(h.Sum64(), 36), slow, fast}
}

// encode is the JSON of a value that JSON can say: numbers are finite, see finite.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return text
}

// answerDoc is an answer.
type answerDoc struct {
	Tag  string          `json:"tag"`
	Slow json.RawMessage `json:"slow,omitempty"`
	Fast json.RawMessage `json:"fast"`
	Rank *Rank           `json:"rank,omitempty"`
}

func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	s, u := l.newest()
	ask := r.URL.Query()
	doc := answerDoc{Tag: u.tag, Fast: u.fast}
	if ask.Get("have") != u.tag {
		doc.Slow = u.slow
	}
	if k, err := strconv.Atoi(ask.Get("rank")); err == nil && k >= 0 && k < len(s.Ranks) {
		doc.Rank = &s.Ranks[k]
	}
	answer(w, r, "application/json", encode(doc))
}

// slowDoc is what changes seldom.
type slowDoc struct {
	Agent  Agent      `json:"agent"`
	Job    Job        `json:"job"`
	View   uint64     `json:"view"`
	Since  *time.Time `json:"since,omitempty"`
	Leader string     `json:"leader"`
	Voters int        `json:"voters"`
	Nodes  []nodeDoc  `json:"nodes"`
	Events []Event    `json:"events"`
	Last   *Closed    `json:"last,omitempty"`
}

// nodeDoc is a node; its ranks follow those of the node before it.
type nodeDoc struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Rack    string `json:"rack,omitempty"`
	Address string `json:"address"`
	Ranks   []int  `json:"ranks"`
	Role    string `json:"role,omitempty"` // leader or voter
	Lost    bool   `json:"lost,omitempty"`
}

// shortID is as much of an ID as people compare.
const shortID = 8

func slowOf(s *Snapshot) slowDoc {
	d := slowDoc{Agent: s.Agent, Job: s.Job, View: s.View.Number, Since: s.View.Since, Voters: len(s.View.Voters), Events: s.Events, Last: s.Coverage.Last, Nodes: make([]nodeDoc, len(s.Nodes))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		d.Nodes[i] = nodeDoc{ID: n.ID[:min(shortID, len(n.ID))], Name: n.Name, Rack: n.Rack, Address: n.Address, Ranks: n.Ranks, Lost: n.Lost}
		if n.Ranks == nil {
			d.Nodes[i].Ranks = []int{} // a witness: the page takes a list
		}
		switch {
		case n.Leader:
			d.Nodes[i].Role, d.Leader = "leader", n.Name
		case n.Voter:
			d.Nodes[i].Role = "voter"
		}
	}
	return d
}

// fastDoc is numbers.
type fastDoc struct {
	Time     time.Time `json:"time"`
	Status   Status    `json:"status"`
	Reason   string    `json:"reason,omitempty"`
	Progress Progress  `json:"progress"`
	Of       int64     `json:"of"`
	Done     int64     `json:"done"`
	// Cells is the epoch in that many pieces of one length, a digit each: see cells. Empty:
	// which positions are done is not known here.
	Cells   string    `json:"cells,omitempty"`
	Leased  int64     `json:"leased,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Samples float64   `json:"samples_per_s"`
	History []float64 `json:"history"`
	Gossip  Gossip    `json:"gossip"`
	Dropped int64     `json:"dropped"`
	Evicted int64     `json:"evicted"`
	Settle  float64   `json:"settle_s"`
	// Rates is by rank, -1 where it is not known; nil where none is.
	Rates []float64 `json:"rates,omitempty"`
	Lags  []int64   `json:"lags,omitempty"` // by node, likewise
	Left  []int64   `json:"left,omitempty"` // by node, likewise: positions of its lanes
}

func fastOf(s *Snapshot) fastDoc {
	d := fastDoc{
		Time: s.Time, Status: s.Status, Reason: s.Reason, Progress: s.Progress,
		Of: s.Coverage.Of, Done: s.Coverage.Done, Leased: s.Coverage.Leased, Digest: s.Coverage.Digest,
		Samples: rounded(s.Rates.Samples), History: make([]float64, len(s.Rates.History)),
		Gossip: s.Gossip, Evicted: s.Counters.Evicted, Settle: rounded(s.Counters.LastSettle),
		Rates: rates(s), Lags: lags(s), Left: left(s),
	}
	for i, v := range s.Rates.History {
		d.History[i] = rounded(v)
	}
	for _, n := range s.Counters.Dropped {
		d.Dropped += n
	}
	if s.Coverage.Spans != nil {
		d.Cells = cells(s.Coverage.Spans, s.Coverage.Of)
	}
	return d
}

func rates(s *Snapshot) []float64 {
	list, known := make([]float64, len(s.Ranks)), false
	for i := range s.Ranks {
		list[i] = -1
		if r := s.Ranks[i].Rate; r != nil {
			list[i], known = rounded(*r), true
		}
	}
	if !known {
		return nil
	}
	return list
}

func lags(s *Snapshot) []int64 {
	list, known := make([]int64, len(s.Nodes)), false
	for i := range s.Nodes {
		list[i] = -1
		if n := s.Nodes[i].Lag; n != nil {
			list[i], known = *n, true
		}
	}
	if !known {
		return nil
	}
	return list
}

func left(s *Snapshot) []int64 {
	list, known := make([]int64, len(s.Nodes)), false
	for i := range list {
		list[i] = -1
	}
	for i := range s.Ranks {
		if r := &s.Ranks[i]; r.Left != nil && r.Node < len(list) {
			list[r.Node], known = max(0, list[r.Node])+*r.Left, true
		}
	}
	if !known {
		return nil
	}
	return list
}

// rounded is a number to three digits: more only makes the answer longer.
func rounded(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
