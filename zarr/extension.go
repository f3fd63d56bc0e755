package zarr

import (
	"encoding/json"
	"maps"
	"slices"
)

// extension is a named extension point of v3 metadata: a data type, grid, key
// encoding, codec or storage transformer. It is written as a bare string or as
// {name, configuration?, must_understand?}.
type extension struct {
	name   string
	config json.RawMessage // an object, nil if absent
}

// parseExtension reads either form. must_understand is ignored: a reader cannot
// do without a data type, a grid, a key encoding or a codec, whatever it says.
func (p *parser) parseExtension(what string, raw json.RawMessage) (extension, error) {
	if name, err := parseString(what, raw); err == nil {
		return named(what, extension{name: name})
	}
	o, err := parseObject(what, raw)
	if err != nil {
		return extension{}, corrupt("%s is %s, expected a name or an object with a name", what, excerpt(raw))
	}
	name, err := parseString(what+" name", o["name"])
	if err != nil {
		return extension{}, err
	}
	e := extension{name: name}
	if config := o["configuration"]; !absent(config) {
		if _, err := parseObject(what+" "+name+" configuration", config); err != nil {
			return extension{}, err
		}
		e.config = config
	}
	for _, member := range slices.Sorted(maps.Keys(o)) {
		if member != "name" && member != "configuration" && member != "must_understand" {
			p.note("%s %q: member %q ignored", what, name, member)
		}
	}
	return named(what, e)
}

func named(what string, e extension) (extension, error) {
	if e.name == "" {
		return extension{}, corrupt("%s has an empty name", what)
	}
	return e, nil
}

// settings is the configuration as an object, empty if absent.
func (e extension) settings() object {
	o := object{}
	if e.config != nil {
		_ = json.Unmarshal(e.config, &o) // parseExtension has seen that it is an object
	}
	return o
}

// only is settings, which may hold no other members than those named: others
// could change the meaning of the data.
func (e extension) only(what string, names ...string) (object, error) {
	settings := e.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !slices.Contains(names, name) {
			return nil, unsupported("%s %q with setting %q", what, e.name, name)
		}
	}
	return settings, nil
}

// optional reports whether a member that is not known may be skipped: only an
// object that says must_understand false.
func optional(raw json.RawMessage) bool {
	o, err := parseObject("member", raw)
	return err == nil && string(o["must_understand"]) == "false"
}
