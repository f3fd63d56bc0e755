package rank_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/headrace/headrace/rank"
)

// env makes a lookup of "NAME=value" words.
func env(words string) func(string) (string, bool) {
	vars := make(map[string]string)
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		vars[name] = value
	}
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func TestDetect(t *testing.T) {
	f := func(words, source string, want rank.Identity) {
		t.Helper()
		got, from, err := rank.Detect(env(words))
		if err != nil || from != source || got != want {
			t.Errorf("%q:\n got %+v from %s, %v\nwant %+v from %s", words, got, from, err, want, source)
		}
	}
	f("", "single", rank.Identity{World: 1, LocalWorld: 1, Nodes: 1})
	f("RANK= LOCAL_RANK=", "single", rank.Identity{World: 1, LocalWorld: 1, Nodes: 1})
	// What torchrun sets: one process, two on a node, two nodes of two.
	f("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none",
		"torchrun", rank.Identity{World: 1, LocalWorld: 1, Nodes: 1, RunID: "none"})
	f("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=abc",
		"torchrun", rank.Identity{Rank: 3, World: 4, LocalRank: 1, LocalWorld: 2, Node: 1, Nodes: 2, RunID: "abc"})
	// Static nodes may be uneven.
	f("RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=2",
		"torchrun", rank.Identity{World: 3, LocalWorld: 1, Nodes: 2})
	// --virtual-local-rank shows each rank one GPU, as number 0.
	f("RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1",
		"torchrun", rank.Identity{Rank: 1, World: 2, LocalWorld: 2, Nodes: 1})
	// Partial environments whose rest follows.
	f("RANK=1 WORLD_SIZE=2", "torchrun", rank.Identity{Rank: 1, World: 2, LocalRank: 1, LocalWorld: 2, Nodes: 1})
	f("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4",
		"torchrun", rank.Identity{Rank: 5, World: 8, LocalRank: 1, LocalWorld: 4, Node: 1, Nodes: 2})
	// Our own variables go with any source.
	f("HEADRACE_ENGINE=/run/e HEADRACE_AGENT=/run/a HEADRACE_KEY_FILE=/run/k",
		"single", rank.Identity{World: 1, LocalWorld: 1, Nodes: 1, Engine: "/run/e", Agent: "/run/a", KeyFile: "/run/k"})
}

func TestDetectView(t *testing.T) {
	for words, want := range map[string]uint64{"HEADRACE_VIEW=0": 0, "HEADRACE_VIEW=18446744073709551615": 1<<64 - 1} {
		id, _, err := rank.Detect(env(words))
		if err != nil || id.View == nil || *id.View != want {
			t.Errorf("%s: view %v, %v", words, id.View, err)
		}
	}
	if id, _, err := rank.Detect(env("")); err != nil || id.View != nil {
		t.Errorf("no view is told from view 0: %v %v", id.View, err)
	}
}

// Every refusal names the variable and its value.
func TestDetectRefuses(t *testing.T) {
	good := map[string]string{
		"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2",
	}
	// f sets (or, with "-", removes) variables of the good environment.
	f := func(changes, variable, value string) {
		t.Helper()
		vars := maps.Clone(good)
		for change := range strings.FieldsSeq(changes) {
			if name, ok := strings.CutPrefix(change, "-"); ok {
				delete(vars, name)
				continue
			}
			name, v, _ := strings.Cut(change, "=")
			vars[name] = v
		}
		_, source, err := rank.Detect(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		var e *rank.Error
		if !errors.As(err, &e) || e.Variable != variable || e.Value != value {
			t.Errorf("%s: got %v, want a refusal of %s=%s", changes, err, variable, value)
			return
		}
		if !strings.Contains(err.Error(), variable) || !strings.Contains(err.Error(), value) || source == "" {
			t.Errorf("%s: %q from %q does not say what was wrong where", changes, err, source)
		}
	}
	f("RANK=three", "RANK", "three")
	f("RANK=4", "RANK", "4")
	f("RANK=-1", "RANK", "-1")
	f("RANK=99999999999999999999", "RANK", "99999999999999999999")
	f("WORLD_SIZE=0", "WORLD_SIZE", "0")
	f("WORLD_SIZE=0x4", "WORLD_SIZE", "0x4")
	f("LOCAL_RANK=2", "LOCAL_RANK", "2")
	f("LOCAL_RANK=-1", "LOCAL_RANK", "-1")
	f("LOCAL_WORLD_SIZE=0", "LOCAL_WORLD_SIZE", "0")
	f("LOCAL_WORLD_SIZE=5", "LOCAL_WORLD_SIZE", "5")
	f("GROUP_RANK=2", "GROUP_RANK", "2")
	f("GROUP_RANK=-1", "GROUP_RANK", "-1")
	f("GROUP_WORLD_SIZE=0", "GROUP_WORLD_SIZE", "0")
	f("GROUP_WORLD_SIZE=4", "GROUP_WORLD_SIZE", "4") // three other nodes, two ranks
	f("GROUP_RANK=0 GROUP_WORLD_SIZE=1", "LOCAL_WORLD_SIZE", "2")
	f("-RANK", "RANK", "")
	f("-WORLD_SIZE", "WORLD_SIZE", "")
	f("-LOCAL_RANK", "LOCAL_RANK", "")
	f("-LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE", "")
	f("-GROUP_WORLD_SIZE", "GROUP_WORLD_SIZE", "")
	f("-RANK -WORLD_SIZE", "RANK", "")
	f("-RANK -WORLD_SIZE -LOCAL_RANK -LOCAL_WORLD_SIZE", "RANK", "")
	f("-LOCAL_RANK -LOCAL_WORLD_SIZE", "LOCAL_RANK", "")
	f("-GROUP_RANK -GROUP_WORLD_SIZE WORLD_SIZE=5", "GROUP_RANK", "")
	f("HEADRACE_VIEW=-1", "HEADRACE_VIEW", "-1")
	f("HEADRACE_VIEW=new", "HEADRACE_VIEW", "new")
}

// Whatever Detect accepts is free of contradictions.
func FuzzDetect(f *testing.F) {
	f.Add("3", "4", "1", "2", "1", "2")
	f.Add("1", "2", "", "", "", "")
	f.Add("5", "8", "1", "4", "", "")
	f.Add("0", "9223372036854775807", "0", "1", "0", "9223372036854775807")
	f.Add("0", "-9223372036854775808", "0", "9223372036854775807", "", "")
	f.Fuzz(func(t *testing.T, r, w, lr, lw, n, ns string) {
		vars := map[string]string{
			"RANK": r, "WORLD_SIZE": w, "LOCAL_RANK": lr, "LOCAL_WORLD_SIZE": lw, "GROUP_RANK": n, "GROUP_WORLD_SIZE": ns,
		}
		id, _, err := rank.Detect(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if err != nil {
			if _, ok := errors.AsType[*rank.Error](err); !ok {
				t.Errorf("error of another type: %v", err)
			}
			return
		}
		if id.Rank < 0 || id.Rank >= id.World || id.LocalRank < 0 || id.LocalRank >= id.LocalWorld ||
			id.LocalWorld > id.World || id.Node < 0 || id.Node >= id.Nodes || id.Nodes > id.World {
			t.Errorf("%v gave %+v", vars, id)
		}
	})
}
