package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// What goes into the log of the job is bounded where it is given: later nobody could read it.
func TestConfigBounds(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, change := range map[string]func(*Config){
		"Job": func(c *Config) { c.Job = long }, "Name": func(c *Config) { c.Name = long },
		"Rack": func(c *Config) { c.Rack = long }, "Advertise": func(c *Config) { c.Advertise = long },
	} {
		c := Config{Job: "job", Form: true}
		change(&c)
		if err := c.Validate(); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), name+" has 256 bytes, at most 255") {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := agentapi.Attach{Plan: "p", Mode: "lockstep", N: 1, Steps: 1 << 31, Epoch: 1 << 32}
	if err := a.Validate(); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "2^63") {
		t.Errorf("a step beyond all: %v", err)
	}
	a.Epoch = 1 << 31
	if err := a.Validate(); err != nil {
		t.Error(err)
	}
}

// An agent that may form the job a second time, cut off from its contacts, must not be one that
// hands out what it forms alone.
func TestFormWithContactsWantsExpect(t *testing.T) {
	for _, c := range []struct {
		form     bool
		contacts []string
		expect   int
		refused  bool
	}{
		{true, []string{"127.0.0.1:9"}, 0, true},
		{true, []string{"127.0.0.1:9"}, 1, true},
		{true, []string{"127.0.0.1:9"}, 2, false},
		{true, nil, 0, false},
		{false, []string{"127.0.0.1:9"}, 0, false},
	} {
		err := Config{Job: "job", Listen: "127.0.0.1:0", Profile: "default", Form: c.form, Contacts: c.contacts, Expect: c.expect}.Validate()
		if refused := errors.Is(err, nd.ErrConfig) && strings.Contains(err.Error(), "second job"); refused != c.refused || err != nil && !c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
