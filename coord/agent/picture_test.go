package agent

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
)

// BenchmarkPicture is what a Snapshot of 4,000 ranks on 500 nodes costs the goroutine of
// an agent that leads an async job.
func BenchmarkPicture(b *testing.B) {
	cfg := group.Default()
	for i := range 500 {
		var id coord.ID
		binary.BigEndian.PutUint64(id[:], uint64(i+1))
		cfg.Form = append(cfg.Form, coord.Member{ID: id, Name: fmt.Sprintf("node%03d", i), Address: "127.0.0.1:1", Ranks: []int{0, 1, 2, 3, 4, 5, 6, 7}})
	}
	cfg.Self = coord.Admission{Member: cfg.Form[0], Version: coord.Version, Job: "job", Plan: "p"}
	cfg.Job = coord.Job{Name: "job", Plan: "p", Mode: coord.Async, N: 1 << 24, Voters: 1, Expect: 4000, Ahead: 64, Reserve: 64}
	n, err := group.New(cfg, 0)
	if err != nil {
		b.Fatal(err)
	}
	a := &Agent{config: Config{Job: "job"}, began: time.Now(), former: &agentapi.Attach{}, settle: newSettle()}
	a.watch = newWatch(a.settle.Observe)
	a.self = incarnation{id: cfg.Self.ID, node: n}
	for now := time.Duration(0); n.State().View == nil; now += cfg.Beat {
		n.Tick(now)
		n.Outbox()
	}
	for b.Loop() {
		if p := a.picture(); len(p.Ranks) != 4000 || p.Ranks[3999].Left == nil {
			b.Fatalf("%d ranks", len(p.Ranks))
		}
	}
}
