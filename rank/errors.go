package rank

import (
	"fmt"
	"strconv"
)

// Error is a variable of the environment that is malformed, or that contradicts
// another.
type Error struct {
	Variable string
	Value    string // empty where the variable is not set and must be
	Detail   string // what is wrong and what was expected
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("environment: %s is not set: %s", e.Variable, e.Detail)
	}
	return fmt.Sprintf("environment: %s=%s: %s", e.Variable, e.Value, e.Detail)
}

func wrong(name string, value int, rule string) error {
	return &Error{name, strconv.Itoa(value), "must be " + rule}
}

func relate(name string, value int) string { return fmt.Sprintf("%s=%d", name, value) }
