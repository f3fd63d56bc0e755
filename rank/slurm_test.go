package rank_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/rank"
)

func TestHosts(t *testing.T) {
	f := func(list string, want ...string) {
		t.Helper()
		if got, err := rank.Hosts(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", list, got, err, want)
		}
	}
	f("login", "login")
	f("n[1-3,7]", "n1", "n2", "n3", "n7")
	f("n[1-2],login,m3", "n1", "n2", "login", "m3")
	f("gpu[008-011]-ib", "gpu008-ib", "gpu009-ib", "gpu010-ib", "gpu011-ib")
	f("r[1-2]n[01,05]", "r1n01", "r1n05", "r2n01", "r2n05")
	for _, bad := range []string{
		"", ",", "a,", ",a", "a,,b", "n[", "n]", "n[1", "n[[1]]", "n[]", "n[a]", "n[3-1]", "n[1-]", "n[-1]", "n[1,]",
		"n[1-999999999]", "n[1-9999]m[1-9999]", "n 1", "n[18446744073709551615]", "n[0000000000001]",
		"n[1-100000]" + strings.Repeat("x", 1<<16), strings.Repeat("x", 256), strings.Repeat("x", 200) + "[1]" + strings.Repeat("x", 60),
	} {
		if got, err := rank.Hosts(bad); err == nil {
			t.Errorf("%q: got %d hosts, want an error", bad, len(got))
		}
	}
}

// slowHosts unfolds one bracket at a time by a regular expression.
func slowHosts(list string) []string {
	bracket := regexp.MustCompile(`^([^\[,]*)\[([^\]]*)\]([^,]*)`)
	if list == "" {
		return nil
	}
	m := bracket.FindStringSubmatchIndex(list)
	if m == nil {
		name, rest, _ := strings.Cut(list, ",")
		return append([]string{name}, slowHosts(rest)...)
	}
	// The first name may have further brackets, with commas in them: find its end.
	end := len(list)
	depth := 0
	for i, c := range list {
		depth += strings.Count("[", string(c)) - strings.Count("]", string(c))
		if c == ',' && depth == 0 {
			end = i
			break
		}
	}
	first, rest := list[:end], strings.TrimPrefix(list[end:], ",")
	var hosts []string
	for part := range strings.SplitSeq(list[m[4]:m[5]], ",") {
		lo, hi, ok := strings.Cut(part, "-")
		if !ok {
			hi = lo
		}
		a, _ := strconv.Atoi(lo)
		b, _ := strconv.Atoi(hi)
		for n := a; n <= b; n++ {
			hosts = append(hosts, slowHosts(fmt.Sprintf("%s%0*d%s", list[:m[3]], len(lo), n, first[m[5]+1:]))...)
		}
	}
	return append(hosts, slowHosts(rest)...)
}

// What is unfolded is bounded, and the same as a slow and short reading gives.
func FuzzHosts(f *testing.F) {
	for _, list := range []string{"n[1-3,7]", "a,b", "r[1-2]n[01,05],x[9]", "n[1-999999999]", "[1]", "[1-2][1-2]"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, err := rank.Hosts(list)
		if err != nil {
			return
		}
		if len(got) == 0 || len(got) > 1<<17 {
			t.Fatalf("%d hosts", len(got))
		}
		if len(got) < 1000 && len(list) < 100 {
			if want := slowHosts(list); !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", list, got, want)
			}
		}
	})
}

// Whatever tasks per node says, a rank that is accepted lies within its node.
func FuzzTasksPerNode(f *testing.F) {
	f.Add("8(x4),2", "3", "7")
	f.Add("8(x4),2", "4", "1")
	f.Add("1(x99999999999)", "0", "0")
	f.Fuzz(func(t *testing.T, list, node, local string) {
		vars := map[string]string{
			"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "34", "SLURM_NODEID": node, "SLURM_NNODES": "5",
			"SLURM_LOCALID": local, "SLURM_TASKS_PER_NODE": list,
		}
		id, _, err := rank.Detect(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if err == nil && (id.LocalRank < 0 || id.LocalRank >= id.LocalWorld || id.LocalWorld > 34 || id.Node >= 5) {
			t.Errorf("%v: %+v", vars, id)
		}
	})
}
