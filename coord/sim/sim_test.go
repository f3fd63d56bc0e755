package sim

import (
	"fmt"
	"os"
	"sort"
	"testing"
	"time"
)

func TestSeeds(t *testing.T) {
	n := 200
	if s := os.Getenv("SEEDS"); s != "" {
		fmt.Sscan(s, &n)
	}
	from := 0
	if s := os.Getenv("FROM"); s != "" {
		fmt.Sscan(s, &from)
	}
	bad, over, stopped := 0, 0, 0
	begin := time.Now()
	kinds := map[string]int{}
	var rec []time.Duration
	for seed := from; seed < from+n; seed++ {
		sc := Draw(uint64(seed), &Options{Faults: Kinds()})
		r := Run(sc, Watch{})
		rec = append(rec, r.Recovery...)
		if r.Over {
			over++
		}
		if r.Stopped {
			stopped++
		}
		if len(r.Violations) > 0 {
			bad++
			kinds[r.Violations[0].Invariant]++
			if bad < 15 {
				t.Errorf("seed %d: %v", seed, r.Violations[0])
			}
		}
	}
	sort.Slice(rec, func(i, j int) bool { return rec[i] < rec[j] })
	if len(rec) > 0 {
		t.Logf("recovery p50 %v max %v", rec[len(rec)/2], rec[len(rec)-1])
	}
	t.Logf("%d seeds, %d bad %v, %d over, %d stopped, %v", n, bad, kinds, over, stopped, time.Since(begin))
}

func TestTrace(t *testing.T) {
	var seed uint64
	fmt.Sscan(os.Getenv("SEED"), &seed)
	sc := Draw(seed, &Options{Faults: Kinds()})
	f, _ := os.Create("/tmp/trace.txt")
	defer f.Close()
	for _, a := range sc.Actions {
		fmt.Fprintln(f, a)
	}
	fmt.Fprintf(f, "%+v\n", sc)
	r := Run(sc, Watch{Trace: f})
	t.Logf("%+v", r.Violations)
}

func TestProbe(t *testing.T) {
	var seed uint64
	fmt.Sscan(os.Getenv("SEED"), &seed)
	w := newWorld(Draw(seed, &Options{Faults: Kinds()}), Watch{})
	w.run()
	for _, p := range w.order {
		s := p.node.State()
		v := uint64(0)
		if s.View != nil {
			v = s.View.Number
		}
		r, ok := p.node.Replica()
		t.Logf("%d %v dead %v view %d known %v leads %v votes %v leader %v ending %q replica %v %+v %+v", p.place, short(p.id), p.dead, v, s.Known, s.Leads, s.Votes, short(s.Leader), s.Ending, ok, r, p.node.Held())
	}
}
