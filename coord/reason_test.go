package coord

import (
	"strings"
	"testing"
)

// A refusal quotes names of up to 255 bytes, each of which may take four to be quoted: who is
// refused hears it all the same.
func TestLongReasons(t *testing.T) {
	m := machineOf(t, &Job{Name: strings.Repeat("\x01", MaxText), Plan: "p", Mode: Async, N: 8, Voters: 1, Ahead: 1})
	why := m.Refuses(&Admission{Version: Version, Job: strings.Repeat("\x02", MaxText), Plan: "p"})
	if len(why) <= maxReason {
		t.Fatalf("a reason of %d bytes is no trial", len(why))
	}
	for _, b := range []Body{&Brief{Refused: why}, &Gone{Reason: why}, &Ask{Entry: &Change{Reason: why}}} {
		got, err := ParseMessage(AppendMessage(nil, &Message{Body: b}))
		if err != nil {
			t.Errorf("%T: %v", b, err)
			continue
		}
		if g, ok := got.Body.(*Brief); ok && g.Refused != why[:maxReason] {
			t.Errorf("the reason came as %q", g.Refused)
		}
	}
}

func machineOf(t *testing.T, j *Job) *Machine {
	t.Helper()
	m := new(Machine)
	m.Apply(1, &Form{Job: *j, Members: []Member{{ID: ID{7: 1}, Ranks: []int{0}}}})
	if !m.Formed() {
		t.Fatal("no job is formed")
	}
	return m
}
