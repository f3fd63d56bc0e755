package agent

import (
	"errors"
	"strconv"
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

// What cannot be is found before anything listens, and all of it at once.
func TestConfigThatCannotBe(t *testing.T) {
	wrong := Config{
		Job: "job", Key: []byte(jobKey), Listen: "0.0.0.0:0", Contacts: []string{"", "foo", "h:0", ":7946", "127.0.0.1:7946"}, Expect: -1,
		Observe: Observing{Addr: "10.0.0.1:9"}, Flags: map[string]string{"Advertise": "--advertise"},
	}
	err := wrong.Validate()
	if !errors.Is(err, nd.ErrConfig) {
		t.Fatal(err)
	}
	for _, words := range []string{
		`Contacts "": host:port`, `Contacts "foo": host:port`, `Contacts "h:0": nobody is reached at port 0`, `Contacts ":7946": host:port`,
		`Expect -1: ranks are 1 to 1048576`, `Listen is "0.0.0.0:0", all addresses of this host: name the one by which others reach it (--advertise)`,
		`Observe.Addr "10.0.0.1:9" is off loopback`,
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v\ndoes not say: %s", err, words)
		}
	}
	if strings.Contains(err.Error(), "127.0.0.1:7946") {
		t.Error("it names a contact that can be:", err)
	}
	for _, advertise := range []string{"nonsense", "x:99999", "127.0.0.1:0", "0.0.0.0:7946", "[::]:7946", "x:-1"} {
		c := Config{Job: "job", Form: true, Advertise: advertise}
		if err := c.Validate(); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "Advertise "+strconv.Quote(advertise)) {
			t.Errorf("%s: %v", advertise, err)
		}
	}
	for _, well := range []Config{
		{Job: "job", Form: true, Key: []byte(jobKey), Listen: "[::]:0", Advertise: "node7:7946"},
		{Job: "job", Await: true, Key: []byte(jobKey), Listen: ":0"}, // Meet says by which
	} {
		if err := well.Validate(); err != nil {
			t.Errorf("%+v: %v", well, err)
		}
	}
}
