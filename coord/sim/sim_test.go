package sim

import (
	"context"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// One seed has one history, whoever looks on; another seed has another.
func TestOneSeedOneHistory(t *testing.T) {
	digests := map[[2]uint64]uint64{}
	for seed := range uint64(12) {
		sc := Draw(seed, &Options{Faults: Kinds()})
		a, b := Run(sc, Watch{}), Run(sc, Watch{Trace: io.Discard, Picture: &Picture{}})
		if a.Digest != b.Digest || a.Events != b.Events || a.Messages != b.Messages || a.Time != b.Time {
			t.Errorf("seed %d: %+v, and again %+v", seed, a, b)
		}
		if other, twice := digests[a.Digest]; twice {
			t.Errorf("seeds %d and %d have one history", seed, other)
		}
		digests[a.Digest] = seed
	}
}

// seeds is how many are run: SIM_SEEDS in make soak.
func seeds(t *testing.T) uint64 {
	if text := os.Getenv("SIM_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() || raced {
		return 60
	}
	return 1000
}

// No schedule of faults breaks an invariant, and most jobs come to their end.
func TestSeeds(t *testing.T) {
	all := seeds(t)
	held, within := 0, 0
	for _, part := range []struct {
		profile  Profile
		from, to uint64
	}{{Default, 0, all * 3 / 4}, {Fast, all * 3 / 4, all}} {
		sweep := Sweep{From: part.from, To: part.to, Options: Options{Faults: Kinds(), Profile: part.profile}, Jobs: runtime.GOMAXPROCS(0), Done: func(r *Result) {
			held, within = max(held, r.Held), within+r.VoidWithin
		}}
		s := sweep.Run(context.Background())
		for _, v := range s.Violations {
			t.Errorf("seed %d, %v: %s at %.3f s, node %d: %s", v.Seed, part.profile, v.Invariant, v.Time, v.Node, v.Seen)
		}
		t.Logf("%v: %d seeds, %d faults, %d views, %d elections, recovery %+v, coverage %+v", part.profile, s.Seeds, s.Faults, s.Views.Installed, s.Elections, s.Recovery, s.Coverage)
		if s.Coverage.Over < s.Seeds/2 || s.Views.Installed < 2*s.Seeds || s.Recovery.Count < s.Seeds/4 || s.Coverage.Stopped == 0 && s.Seeds > 100 {
			t.Errorf("%v: little has happened: %+v", part.profile, s)
		}
	}
	t.Logf("ranks held up to %d pieces, and %d became void before others", held, within)
	if held != mostAhead || within == 0 && all > 100 {
		t.Errorf("ranks held up to %d pieces, and %d became void before others", held, within)
	}
}
