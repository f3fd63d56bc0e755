package agentapi

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// plansOf makes plans that fit: world ranks, batch positions [0, global), split as
// evenly as it goes, each part given to replicas ranks.
func plansOf(world, replicas int, global int64) []Plan {
	groups := int64(world / replicas)
	plans := make([]Plan, world)
	for r := range plans {
		g := int64(r / replicas)
		plans[r] = Plan{
			Check: "train", Rank: r, World: world, PlanHash: "abc", Fingerprint: "f00", N: 1000, Global: global, Seed: 7, Epoch: 1,
			Tail: "short", Block: 16, Window: 4, Replicas: replicas, Batch: nd.Span{Stop: global},
		}
		if own := (nd.Span{Start: g * global / groups, Stop: (g + 1) * global / groups}); own.Len() > 0 {
			plans[r].Own = []nd.Span{own}
		}
	}
	return plans
}

func TestCompareTakesPartitions(t *testing.T) {
	for _, c := range []struct {
		world, replicas int
		global          int64
	}{{1, 1, 8}, {2, 1, 8}, {3, 1, 8}, {8, 2, 5}, {8, 8, 5}, {7, 1, 3}, {4, 2, 0}, {4, 0, 4}} {
		plans := plansOf(c.world, max(c.replicas, 1), c.global)
		if err := Compare(plans); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		slices.Reverse(plans)
		if err := Compare(plans); err != nil {
			t.Errorf("%+v reversed: %v", c, err)
		}
	}
}

// Every field that ranks must agree on is compared: a field that is added to Plan
// and forgotten in Compare fails here.
func TestCompareNamesTheField(t *testing.T) {
	names := map[string]string{
		"Check": "check", "World": "world", "PlanHash": "shuffle or the blocks of the source (plan hash)", "Fingerprint": "fingerprint", "N": "n", "Global": "global batch", "Seed": "seed",
		"Epoch": "epoch", "Tail": "tail", "Block": "block", "Window": "window", "Replicas": "replicas", "Batch": "first batch",
	}
	fields := reflect.TypeFor[Plan]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Rank" || name == "Own" {
			continue
		}
		plans := plansOf(4, 1, 8)
		switch f := reflect.ValueOf(&plans[2]).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() * 2)
			if name == "Replicas" {
				f.SetInt(2)
			}
		case reflect.Uint64:
			f.SetUint(f.Uint() + 1)
		case reflect.Struct:
			f.Set(reflect.ValueOf(nd.Span{Stop: 9}))
		default:
			t.Fatalf("field %s has a kind that this test does not change", name)
		}
		wantError(t, Compare(plans), "ranks 0 and 2 differ in "+names[name]+":")
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v, want one with %q", err, part)
	}
}

func TestCompareNamesTheRanks(t *testing.T) {
	change := func(f func(plans []Plan) []Plan, want string) {
		t.Helper()
		wantError(t, Compare(f(plansOf(4, 1, 8))), want)
	}
	change(func([]Plan) []Plan { return nil }, "no plans")
	change(func(p []Plan) []Plan { return p[:3] }, "no plan of rank 3")
	change(func(p []Plan) []Plan { return p[3:] }, "no plan of ranks 0, 1, 2")
	change(func(p []Plan) []Plan { p[1].Rank = 3; return p }, "two plans of rank 3")
	change(func(p []Plan) []Plan { p[2].Own[0].Start--; return p }, "ranks 1 and 2 both load positions [3, 4)")
	change(func(p []Plan) []Plan { p[2].Own[0].Start++; return p }, "no rank loads positions [4, 5) of batch [0, 8)")
	change(func(p []Plan) []Plan { p[0].Own = nil; return p }, "no rank loads positions [0, 2)")
	change(func(p []Plan) []Plan { p[3].Own = nil; return p }, "no rank loads positions [6, 8)")
	change(func(p []Plan) []Plan { p[3].Own = p[2].Own; return p }, "ranks 2 and 3 both load positions [4, 6)")
	change(func(p []Plan) []Plan { p[3].Own[0].Stop = 9; return p }, "outside batch [0, 8)")
	replicas := plansOf(4, 2, 8)
	replicas[3].Own = nil
	wantError(t, Compare(replicas), "rank 2 alone loads positions [4, 8), with 2 replicas 2 ranks must")
	// Many missing ranks are counted, not listed.
	wantError(t, Compare(plansOf(100, 1, 100)[:10]), "ranks 10, 11, 12, 13, 14, 15, 16, 17, … (90 of 100)")
}

// Compare against a count of each position, over random splits with random faults.
func TestCompareAgainstCount(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 20_000 {
		plans := randomPlans(rnd)
		valid := counted(plans)
		if valid {
			good++
		}
		if err := Compare(plans); (err == nil) != valid {
			t.Fatalf("plans %+v: counted %v, compared %v", plans, valid, err)
		}
	}
	if good < 2000 || good > 18_000 {
		t.Errorf("%d of 20000 are valid: the test tries one side only", good)
	}
}

// randomPlans hands out single positions, as locality does, and then mostly breaks
// something.
func randomPlans(rnd *rand.Rand) []Plan {
	groups, replicas := 1+rnd.IntN(4), 1+rnd.IntN(2)
	plans := plansOf(groups*replicas, replicas, int64(1+rnd.IntN(12)))
	for r := range plans {
		plans[r].Own = nil
	}
	for at := range plans[0].Batch.Stop {
		g := rnd.IntN(groups)
		for r := g * replicas; r < (g+1)*replicas; r++ {
			plans[r].Own = append(plans[r].Own, nd.Span{Start: at, Stop: at + 1})
			if rnd.IntN(2) == 0 { // the same positions, spelled otherwise
				plans[r].Own = merge(plans[r].Own)
			}
		}
	}
	if rnd.IntN(3) > 0 {
		p := &plans[rnd.IntN(len(plans))]
		if len(p.Own) > 0 {
			i := rnd.IntN(len(p.Own))
			if rnd.IntN(2) == 0 {
				p.Own = slices.Delete(p.Own, i, i+1)
			} else if p.Own[i].Stop < p.Batch.Stop && (i+1 == len(p.Own) || p.Own[i+1].Start > p.Own[i].Stop) {
				p.Own[i].Stop++
			}
		}
	}
	return plans
}

// counted is the slow twin of the rules about positions: every position is loaded
// by exactly Replicas ranks, and ranks that share one share all.
func counted(plans []Plan) bool {
	has := func(p Plan, at int64) bool {
		return slices.ContainsFunc(p.Own, func(s nd.Span) bool { return s.Start <= at && at < s.Stop })
	}
	for at := range plans[0].Batch.Stop {
		var who []Plan
		for _, p := range plans {
			if has(p, at) {
				who = append(who, p)
			}
		}
		if len(who) != plans[0].Replicas {
			return false
		}
		for other := range plans[0].Batch.Stop {
			for _, p := range who {
				if has(p, other) != has(who[0], other) {
					return false
				}
			}
		}
	}
	return true
}

func TestPlanJSON(t *testing.T) {
	for _, p := range append(plansOf(3, 1, 8), Plan{World: 1, Seed: 1<<64 - 1}) {
		text, err := p.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back Plan
		if err := errors.Join(json.Unmarshal(text, &back), back.Validate()); err != nil {
			t.Fatal(err)
		}
		if back.Own = slices.Clip(back.Own); len(back.Own) == 0 {
			back.Own = p.Own
		}
		if !reflect.DeepEqual(p, back) {
			t.Errorf("%s\n%+v became %+v", text, p, back)
		}
	}
}
