package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Chain is one entry of dataset.codecs: the codecs of an array in the order of
// encoding. In JSON it is one codec or a list of them; a codec is a name
// ("zstd", "blosc-zstd", "none", …: see package dataset) or an object as zarr
// metadata have it.
type Chain []Codec

// Codec is a codec by name, with its configuration where the name alone does
// not say everything.
type Codec struct {
	Name   string          `json:"name"`
	Config json.RawMessage `json:"configuration,omitempty"`
}

// UnmarshalJSON reads one codec or a list of codecs.
func (c *Chain) UnmarshalJSON(data []byte) error {
	*c = nil
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []Codec
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		*c = list
		return nil
	}
	var one Codec
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*c = Chain{one}
	return nil
}

// UnmarshalJSON reads a name or an object of name and configuration.
func (c *Codec) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`"`)) {
		*c = Codec{}
		return json.Unmarshal(data, &c.Name)
	}
	type plain Codec // without this method
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*plain)(c)); err != nil {
		return fmt.Errorf("codec: %w", err)
	}
	if c.Name == "" {
		return fmt.Errorf("codec %s has no name", data)
	}
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads, in its shortest form.
func (c Chain) MarshalJSON() ([]byte, error) {
	if len(c) == 1 {
		return json.Marshal(c[0])
	}
	return json.Marshal([]Codec(c))
}

// MarshalJSON writes the name alone where there is no configuration.
func (c Codec) MarshalJSON() ([]byte, error) {
	if c.Config == nil {
		return json.Marshal(c.Name)
	}
	type plain Codec
	return json.Marshal(plain(c))
}
