package sampler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// members reads a JSON object. A name that comes twice is an error, where
// encoding/json would take the last.
func members(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("no JSON object: %.40q", text)
	}
	values := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("no JSON object: %w", err)
		}
		key := name.(string) // or Token had an error
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("%.80q comes twice", key)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("no JSON object: %w", err)
		}
		values[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("no JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("no JSON object: something follows it")
	}
	return values, nil
}
