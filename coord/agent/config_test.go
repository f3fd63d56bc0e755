package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

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
