package rank

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mostHosts and longestHost bound what one list of hosts may unfold to, so that
// n[1-999999999] is an error and not all memory.
const (
	mostHosts   = 1 << 17
	longestHost = 255 // bytes of a name in DNS
)

// countOf is the entry for one node of a list of counts as Slurm writes it, for
// example SLURM_TASKS_PER_NODE: "8(x4),2" is 8 on each of four nodes and 2 on the
// fifth.
func countOf(list string, node int) (int, error) {
	if node < 0 {
		return 0, fmt.Errorf("node %d has no entry", node)
	}
	left := node
	for part := range strings.SplitSeq(list, ",") {
		text, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.ParseUint(text, 10, 31)
		repeat := uint64(1)
		if repeated {
			digits, closed := strings.CutSuffix(times, ")")
			var err2 error
			repeat, err2 = strconv.ParseUint(digits, 10, 31)
			if !closed || err2 != nil {
				return 0, fmt.Errorf("%q is not a count like 8(x4)", part)
			}
		}
		if err != nil || n == 0 || repeat == 0 {
			return 0, fmt.Errorf("%q is not a count like 8 or 8(x4)", part)
		}
		if uint64(left) < repeat {
			return int(n), nil
		}
		left -= int(repeat)
	}
	return 0, fmt.Errorf("node %d has no entry", node)
}

// Hosts unfolds a list of hosts as Slurm writes it: "n[1-3,7],login" is n1, n2,
// n3, n7 and login. Numbers keep their leading zeros, and a name may have several
// brackets, of which the last one runs fastest.
func Hosts(list string) ([]string, error) {
	var hosts []string
	for rest := list; rest != ""; {
		var name string
		var err error
		if name, rest, err = cutName(rest); err != nil {
			return nil, err
		}
		if hosts, err = unfold(hosts, name); err != nil {
			return nil, err
		}
	}
	if len(hosts) == 0 {
		return nil, errors.New("no host in the list")
	}
	return hosts, nil
}

// cutName cuts a list at its first comma outside brackets.
func cutName(list string) (name, rest string, err error) {
	inside := false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && inside, c == ']' && !inside:
			return "", "", fmt.Errorf("%q: brackets do not match", list)
		case c == '[', c == ']':
			inside = !inside
		case c == ',' && !inside:
			if i == 0 || i == len(list)-1 {
				return "", "", fmt.Errorf("%q: a name is empty", list)
			}
			return list[:i], list[i+1:], nil
		case c <= ' ' || c >= 0x7f:
			return "", "", fmt.Errorf("%q: no character of a host's name", list)
		}
	}
	if inside {
		return "", "", fmt.Errorf("%q: brackets do not match", list)
	}
	return list, "", nil
}

// unfold appends the hosts of one name with any number of brackets.
func unfold(hosts []string, name string) ([]string, error) {
	names := []string{""}
	for name != "" {
		literal, rest, open := strings.Cut(name, "[")
		if len(names[0])+len(literal) > longestHost {
			return nil, fmt.Errorf("a host's name has more than %d bytes", longestHost)
		}
		numbers := []string{""}
		if open {
			inner, after, _ := strings.Cut(rest, "]")
			var err error
			if numbers, err = unfoldRanges(inner); err != nil {
				return nil, err
			}
			rest = after
		}
		if len(names)*len(numbers)+len(hosts) > mostHosts {
			return nil, fmt.Errorf("more than %d hosts", mostHosts)
		}
		product := make([]string, 0, len(names)*len(numbers))
		for _, n := range names {
			for _, number := range numbers {
				product = append(product, n+literal+number)
			}
		}
		names, name = product, rest
	}
	return append(hosts, names...), nil
}

// unfoldRanges unfolds what is between brackets: "1-3,007".
func unfoldRanges(list string) ([]string, error) {
	var numbers []string
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err := strconv.ParseUint(lo, 10, 40)
		last, err2 := strconv.ParseUint(hi, 10, 40)
		if err != nil || err2 != nil || last < first || len(lo) > 12 {
			return nil, fmt.Errorf("%q is not a number or range of a host", part)
		}
		if last-first >= uint64(mostHosts-len(numbers)) {
			return nil, fmt.Errorf("more than %d hosts", mostHosts)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(lo), n))
		}
	}
	return numbers, nil
}
