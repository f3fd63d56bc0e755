package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostCPUs bounds the numbers in a list of CPUs. Linux allows 8192.
const mostCPUs = 1 << 16

// CPUs is a set of logical CPUs, in ascending order.
type CPUs []int

// ParseCPUs reads a list as the kernel writes it: "0-3,8". An empty list is an
// empty set.
func ParseCPUs(list string) (CPUs, error) {
	list = strings.TrimSpace(list)
	if list == "" {
		return nil, nil
	}
	seen := make(map[int]bool)
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err := strconv.ParseUint(lo, 10, 31)
		last, err2 := strconv.ParseUint(hi, 10, 31)
		if err != nil || err2 != nil || last < first || last >= mostCPUs {
			return nil, fmt.Errorf("%q is no list of CPUs", list)
		}
		for n := first; n <= last; n++ {
			seen[int(n)] = true
		}
	}
	cpus := make(CPUs, 0, len(seen))
	for n := range seen {
		cpus = append(cpus, n)
	}
	slices.Sort(cpus)
	return cpus, nil
}

// String writes the set as the kernel does.
func (c CPUs) String() string {
	var b strings.Builder
	for i := 0; i < len(c); {
		last := i
		for last+1 < len(c) && c[last+1] == c[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(c[i]))
		if last > i {
			b.WriteString("-" + strconv.Itoa(c[last]))
		}
		i = last + 1
	}
	return b.String()
}

// Has reports whether a CPU is in the set.
func (c CPUs) Has(cpu int) bool {
	_, found := slices.BinarySearch(c, cpu)
	return found
}
