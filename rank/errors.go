package rank

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is a variable of the environment that is malformed, or that contradicts
// another; or an argument of an Override, whose names are in small letters.
type Error struct {
	Variable string
	Value    string // empty where the variable is not set and must be
	Detail   string // what is wrong and what was expected
}

func (e *Error) Error() string {
	where := "environment"
	if e.Variable == strings.ToLower(e.Variable) {
		where = Explicit
	}
	if e.Value == "" {
		return fmt.Sprintf("%s: %s is not set: %s", where, e.Variable, e.Detail)
	}
	return fmt.Sprintf("%s: %s=%s: %s", where, e.Variable, e.Value, e.Detail)
}

func wrong(name string, value int, rule string) error {
	return &Error{name, strconv.Itoa(value), "must be " + rule}
}

func itoa(n int) string { return strconv.Itoa(n) }

func relate(name string, value int) string { return fmt.Sprintf("%s=%d", name, value) }
