package codec

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/headrace/headrace/nd"
)

// settings is the configuration object of one codec. Members that a codec does
// not ask for are ignored here: in version 2 writers put all kinds of extras
// there, and a stream holds all that its decoder needs. Version 3 is stricter;
// package zarr refuses what it does not know when it reads the metadata.
type settings struct {
	codec   string
	members map[string]json.RawMessage
}

func parseSettings(codec string, config json.RawMessage) (settings, error) {
	set := settings{codec: codec}
	if len(bytes.TrimSpace(config)) == 0 {
		return set, nil
	}
	if err := json.Unmarshal(config, &set.members); err != nil {
		return set, nd.Errorf(nd.ErrCorrupt, "codec %s: its configuration is no JSON object: %w", codec, err)
	}
	return set, nil
}

// get decodes the member into value; ok is false when it is absent or null.
func (s settings) get(key string, value any) (ok bool, err error) {
	raw := bytes.TrimSpace(s.members[key])
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return false, nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return false, nd.Errorf(nd.ErrCorrupt, "codec %s: setting %s is %.60s: %w", s.codec, key, raw, err)
	}
	return true, nil
}

func (s settings) required(key string, value any) error {
	ok, err := s.get(key, value)
	if err == nil && !ok {
		err = s.missing(key)
	}
	return err
}

func (s settings) missing(key string) error {
	return nd.Errorf(nd.ErrCorrupt, "codec %s: setting %s is missing", s.codec, key)
}

// hint reads a setting that only an encoder uses. Decoding does not depend on
// it, so whatever is there must not stop a reader.
func (s settings) hint(key string, otherwise int) int {
	var f float64
	if ok, err := s.get(key, &f); err != nil || !ok || math.Abs(f) > math.MaxInt32 {
		return otherwise
	}
	return int(f)
}

func (s settings) flag(key string) bool {
	var b bool
	ok, err := s.get(key, &b)
	return ok && err == nil && b
}
