package zarr

import "github.com/headrace/headrace/nd"

// ParseArray reads the metadata of an array: a zarr.json of version 3 or a
// .zarray of version 2. Metadata that break the format are nd.ErrCorrupt; legal
// metadata that headrace does not read are nd.ErrUnsupported, naming the part; a
// group is nd.ErrNotFound.
func ParseArray(doc []byte) (*Array, error) {
	p := &parser{}
	raw, err := p.document(doc, MaxDocument)
	if err != nil {
		return nil, err
	}
	o, err := parseObject("array metadata", raw)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(o)
	if err != nil {
		return nil, err
	}
	var a *Array
	if format == 2 {
		a, err = p.parseV2(o)
	} else if err = checkNode(o, "array"); err == nil {
		a, err = p.parseV3(o)
	}
	if err == nil {
		err = checkSizes(a)
	}
	if err != nil {
		return nil, err
	}
	a.Notes = p.notes
	return a, nil
}

// formatOf is zarr_format, 2 or 3. Drafts of version 3 had a URI in its place.
func formatOf(o object) (int, error) {
	switch raw := o["zarr_format"]; {
	case raw == nil:
		return 0, corrupt("metadata lack zarr_format")
	case string(raw) == "2":
		return 2, nil
	case string(raw) == "3":
		return 3, nil
	default:
		return 0, unsupported("zarr_format %s: 2 and 3 are read", excerpt(raw))
	}
}

// checkNode compares node_type of v3 metadata with what is asked for.
func checkNode(o object, want string) error {
	got, err := parseString("node_type", o["node_type"])
	switch {
	case err != nil:
		return err
	case got == want:
		return nil
	case got != "array" && got != "group":
		return unsupported("node_type %q", got)
	}
	return nd.Errorf(nd.ErrNotFound, "the metadata describe a node of type %s, not %s", got, want)
}
