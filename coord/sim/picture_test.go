package sim

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// The timeline is an XML document with a row for each node, a band for each view, and
// crosses for the dead.
func TestPicture(t *testing.T) {
	sc := Draw(5, &Options{Nodes: 5, Faults: Kinds()})
	sc.Actions = []Action{{At: 5 * time.Second, Kind: Kill, Who: "leader"}, {At: 6 * time.Second, Kind: Stop, Who: "3", For: 2 * time.Second}, {At: 9 * time.Second, Kind: Partition, Set: []int{1}, For: time.Second}}
	p := &Picture{}
	r := Run(sc, Watch{Picture: p})
	var b strings.Builder
	if err := p.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for what, least := range map[string]int{">node ": 5, ">view ": 2, "#c0262d": 1, "#8a6fc0": 2, "#e08a3c": 2, "#2b7a3d": 20, "<circle": 2} {
		if n := strings.Count(text, what); n < least {
			t.Errorf("%q is there %d times, at least %d are wanted", what, n, least)
		}
	}
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}
