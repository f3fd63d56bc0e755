package sampler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/headrace/headrace/nd"
)

// ReadJSONLines reads a table of one JSON object a line, with the names of
// TableCrops: {"array": 2, "start": [0, 64, 128], "flip": [-1], "weight": 0.5}.
// Blank lines are passed over. An error names the line: nd.ErrCorrupt, nd.ErrShape
// for a crop that does not fit, nd.ErrBudget over a limit, nd.ErrIO of the reader.
func ReadJSONLines(r io.Reader, config TableCrops) (*Table, error) {
	t, err := newTableReader(config)
	if err != nil {
		return nil, err
	}
	err = lines(r, t.config.MaxBytes, func(line []byte) error {
		row, err := t.parseJSON(line)
		if err != nil {
			return err
		}
		return t.add(row)
	})
	if err != nil {
		return nil, err
	}
	return t.finish(), nil
}

func (r *tableReader) parseJSON(line []byte) (row tableRow, err error) {
	names, err := members(line)
	if err != nil {
		return row, err
	}
	array, hasArray := names["array"]
	if !hasArray && len(r.table.windows.groups) > 1 {
		return row, nd.Errorf(nd.ErrCorrupt, "array is missing: there are %d", len(r.table.windows.groups))
	}
	if hasArray {
		if row.group, err = r.groupJSON(array); err != nil {
			return row, err
		}
	}
	if _, ok := names["start"]; !ok {
		return row, nd.Errorf(nd.ErrCorrupt, "start is missing")
	}
	return row, r.membersJSON(&row, names)
}

// membersJSON reads what is in a row besides its group.
func (r *tableReader) membersJSON(row *tableRow, names map[string]json.RawMessage) error {
	known := map[string]any{"start": (*numbers)(&row.start), "flip": (*numbers)(&row.flip), "weight": &row.weight}
	var unknown []string
	for name, value := range names {
		into := known[name]
		switch {
		case name == "array":
		case into == nil:
			unknown = append(unknown, name)
		case bytes.Equal(value, []byte("null")):
			return nd.Errorf(nd.ErrCorrupt, "%s is null: leave it out", name)
		default:
			if err := json.Unmarshal(value, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if len(unknown) > 0 && !r.config.Extra {
		return unknownNames(unknown)
	}
	return nil
}

// numbers is a list of integers, of which encoding/json would take null for 0.
type numbers []int64

// UnmarshalJSON is for encoding/json.
func (n *numbers) UnmarshalJSON(text []byte) error {
	var list []*int64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, number := range list {
		if number == nil {
			return errors.New("null is no number")
		}
		*n = append(*n, *number)
	}
	return nil
}

// groupJSON reads the number of a group, or the name of its first array.
func (r *tableReader) groupJSON(value json.RawMessage) (group int, err error) {
	var name string
	if json.Unmarshal(value, &name) == nil && value[0] == '"' {
		return r.groupNamed(name)
	}
	var number int32
	if err := json.Unmarshal(value, &number); err != nil || value[0] == 'n' {
		return 0, nd.Errorf(nd.ErrCorrupt, "array %.40s: a number or a name is wanted", value)
	}
	return int(number), nil
}
