package main

import "testing"

// Command lines of an agent that make no sense are refused before anything listens.
func TestAgentUsage(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"--job", "j", "--form"}, "--socket is missing"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--node-rank", "1"}, "number 0 forms the job"},
		{[]string{"--job", "j", "--socket", "s", "--node-rank", "1"}, "neither Form nor Contacts"},
		{[]string{"--job", "j", "--witness", "--node-rank", "0", "--contact", "h:1"}, "a witness cannot form the job"},
		{[]string{"--job", "j", "--socket", "s", "--form", "--listen", "0.0.0.0:0"}, "without a Key"},
	} {
		t.Setenv("HEADRACE_KEY_FILE", "")
		fails(t, 2, append([]string{"agent"}, c.args...), c.words)
	}
}
