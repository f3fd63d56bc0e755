package group

import (
	"testing"

	"github.com/headrace/headrace/coord"
)

// A line of a log may name what this version does not know.
func TestUnknownNames(t *testing.T) {
	if got := EventKind(200).String(); got != "event 200" {
		t.Error(got)
	}
	if got := coord.Verdict(200).String(); got != "verdict 200" {
		t.Error(got)
	}
	if got := Applied.String(); got != "applied" {
		t.Error(got)
	}
}
