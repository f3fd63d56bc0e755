package zarr

import (
	"encoding/json"
	"strconv"

	"github.com/headrace/headrace/nd"
)

// Multiscale is one image pyramid of an OME-Zarr group.
type Multiscale struct {
	Name    string
	Version string // of the OME-Zarr metadata, "" if they do not say
	// Axes are the axes of all levels; nil if the metadata do not name them, as
	// before version 0.3.
	Axes []Axis
	// Levels are the images, finest first.
	Levels []MultiscaleLevel
}

// Axis is one axis of a pyramid.
type Axis struct {
	Name string
	Type string // "space", "time", "channel"; "" if unknown
	Unit string // "micrometer"; "" if unknown
}

// MultiscaleLevel is one image of a pyramid. A point at index i of an axis lies
// at i*Scale + Translation in the pyramid's space.
type MultiscaleLevel struct {
	Path string // of the array, relative to the group
	// Scale and Translation have a value for each axis, nil where the metadata
	// give none or give them in a form that is not read.
	Scale, Translation []float64
}

type (
	omeMultiscale struct {
		Name       string          `json:"name"`
		Version    string          `json:"version"`
		Axes       json.RawMessage `json:"axes"`
		Datasets   []omeDataset    `json:"datasets"`
		Transforms []omeTransform  `json:"coordinateTransformations"`
	}
	omeDataset struct {
		Path       *string        `json:"path"`
		Transforms []omeTransform `json:"coordinateTransformations"`
	}
	omeTransform struct {
		Type        string          `json:"type"`
		Scale       json.RawMessage `json:"scale"`
		Translation json.RawMessage `json:"translation"`
	}
	omeAxis struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Unit string `json:"unit"`
	}
)

// ParseMultiscales reads the pyramids in the attributes of a group: OME-Zarr 0.4
// and older have them at the top, 0.5 under "ome". It gives nil where there are
// none.
func ParseMultiscales(attributes json.RawMessage) ([]Multiscale, error) {
	ome, version, err := omeMembers(attributes)
	if err != nil || absent(ome["multiscales"]) {
		return nil, err
	}
	var list []omeMultiscale
	if err := json.Unmarshal(ome["multiscales"], &list); err != nil {
		return nil, corrupt("multiscales: %w", err)
	}
	all := make([]Multiscale, len(list))
	for i := range list {
		if all[i], err = list[i].read(version); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ParseLabels reads the paths of the label images in the attributes of an
// OME-Zarr "labels" group. It gives nil where there are none: outside "ome", a
// member "labels" of another type is the user's own.
func ParseLabels(attributes json.RawMessage) ([]string, error) {
	ome, _, err := omeMembers(attributes)
	if err != nil {
		return nil, err
	}
	var labels []string
	if json.Unmarshal(ome["labels"], &labels) != nil {
		return nil, nil
	}
	for i, name := range labels {
		if labels[i], err = CleanPath(name); err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// omeMembers is the object that holds the OME metadata, and its version: "ome"
// since 0.5, before that the attributes themselves, where a "version" belongs to
// something else.
func omeMembers(attributes json.RawMessage) (members object, version string, err error) {
	if attributes == nil {
		return nil, "", nil
	}
	o, err := parseObject("attributes", attributes)
	if err != nil || absent(o["ome"]) {
		return o, "", err
	}
	ome, err := parseObject("ome", o["ome"])
	if err != nil {
		return nil, "", err
	}
	if raw := ome["version"]; !absent(raw) {
		version, err = parseString("ome version", raw)
	}
	return ome, version, err
}

func (m *omeMultiscale) read(version string) (Multiscale, error) {
	out := Multiscale{Name: m.Name, Version: m.Version}
	if out.Version == "" {
		out.Version = version
	}
	axes, err := readAxes(m.Axes)
	if err != nil {
		return out, err
	}
	out.Axes = axes
	if len(m.Datasets) == 0 {
		return out, corrupt("multiscales %q has no datasets", m.Name)
	}
	for _, d := range m.Datasets {
		if d.Path == nil {
			return out, corrupt("multiscales %q has a dataset without a path", m.Name)
		}
		path, err := CleanPath(*d.Path)
		if err != nil {
			return out, err
		}
		level := MultiscaleLevel{Path: path}
		level.apply(d.Transforms)
		level.apply(m.Transforms)
		out.Levels = append(out.Levels, level)
	}
	return out, nil
}

// readAxes reads a list of objects (0.4 and later) or of names (0.3).
func readAxes(raw json.RawMessage) ([]Axis, error) {
	if absent(raw) {
		return nil, nil
	}
	list, err := parseList("multiscales axes", raw)
	if err != nil {
		return nil, err
	}
	axes := make([]Axis, len(list))
	for i, raw := range list {
		if json.Unmarshal(raw, &axes[i].Name) == nil {
			continue
		}
		var axis omeAxis
		if err := json.Unmarshal(raw, &axis); err != nil {
			return nil, corrupt("multiscales axis %s: expected a name or an object", excerpt(raw))
		}
		axes[i] = Axis(axis)
	}
	return axes, nil
}

// apply appends transformations to those of the level: x becomes x*s, then x+t.
// After one of another type nothing is known.
func (l *MultiscaleLevel) apply(transforms []omeTransform) {
	for _, t := range transforms {
		switch t.Type {
		case "identity":
		case "scale":
			s := numbers(t.Scale)
			l.Scale = combine(l.Scale, s, func(x, y float64) float64 { return x * y })
			if l.Translation != nil {
				l.Translation = combine(l.Translation, s, func(x, y float64) float64 { return x * y })
			}
		case "translation":
			l.Translation = combine(l.Translation, numbers(t.Translation), func(x, y float64) float64 { return x + y })
		default:
			l.Scale, l.Translation = nil, nil
			return
		}
	}
}

// numbers is a list of numbers, nil if raw is anything else.
func numbers(raw json.RawMessage) []float64 {
	var list []float64
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// combine joins two lists value by value; a list that is not there is neutral.
func combine(a, b []float64, op func(x, y float64) float64) []float64 {
	if a == nil || len(a) != len(b) {
		return b
	}
	out := make([]float64, len(a))
	for i := range a {
		out[i] = op(a[i], b[i])
	}
	return out
}

// Level finds a level of a pyramid by its index ("0") or by its path. A path
// wins over an index.
func (m *Multiscale) Level(name string) (MultiscaleLevel, error) {
	for _, l := range m.Levels {
		if l.Path == name {
			return l, nil
		}
	}
	if i, ok := smallInt(name); ok && i < len(m.Levels) {
		return m.Levels[i], nil
	}
	paths := make([]string, len(m.Levels))
	for i, l := range m.Levels {
		paths[i] = l.Path
	}
	return MultiscaleLevel{}, nd.Errorf(nd.ErrNotFound, "level %q: there are %d, of paths %q", name, len(m.Levels), paths)
}

// PickLevel finds a level among all pyramids of a group, at least one: by its path
// in any of them, else by its index in the first. "" is the finest of the first.
func PickLevel(all []Multiscale, name string) (MultiscaleLevel, error) {
	if name == "" {
		return all[0].Levels[0], nil
	}
	for _, m := range all {
		for _, l := range m.Levels {
			if l.Path == name {
				return l, nil
			}
		}
	}
	return all[0].Level(name)
}

// smallInt reads a plain decimal index.
func smallInt(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}
