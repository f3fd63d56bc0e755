package zarr

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// parseDTypeV3 reads data_type of v3 metadata.
func (p *parser) parseDTypeV3(raw json.RawMessage) (DType, error) {
	e, err := p.parseExtension("data_type", raw)
	if err != nil {
		return DType{}, err
	}
	switch e.name {
	case "numpy.datetime64":
		return timeTypeV3(e, 'M')
	case "numpy.timedelta64":
		return timeTypeV3(e, 'm')
	}
	for _, d := range nd.DTypes() {
		if d.Name() == e.name {
			_, err := e.only("data type")
			return DType{DType: d, Name: e.name}, err
		}
	}
	return DType{}, unsupported("data type %q", e.name)
}

// timeTypeV3 reads the unit and the scale factor of numpy.datetime64 and
// numpy.timedelta64: {"unit": "s", "scale_factor": 10} is numpy's "10s".
func timeTypeV3(e extension, kind byte) (DType, error) {
	settings, err := e.only("data type", "unit", "scale_factor")
	if err != nil {
		return DType{}, err
	}
	unit, err := parseString(e.name+" unit", settings["unit"])
	if err != nil {
		return DType{}, err
	}
	if raw := settings["scale_factor"]; !absent(raw) && string(raw) != "1" {
		if n, err := strconv.ParseInt(string(raw), 10, 32); err != nil || n < 1 {
			return DType{}, corrupt("%s scale_factor is %s, expected a positive integer", e.name, excerpt(raw))
		}
		unit = string(raw) + unit
	}
	return timeType(e.name, kind, unit)
}

// timeType checks a unit in numpy's spelling, an optional factor before it.
func timeType(name string, kind byte, unit string) (DType, error) {
	unit = strings.Replace(unit, "μs", "us", 1)
	switch strings.TrimLeft(unit, "0123456789") {
	case "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic":
		return DType{DType: nd.I64, Name: name, Unit: unit, Time: kind}, nil
	}
	return DType{}, corrupt("data type %q has unit %q, which numpy does not have", name, unit)
}

// parseDTypeV2 reads dtype of v2 metadata: numpy's type string.
func parseDTypeV2(raw json.RawMessage) (DType, error) {
	if strings.HasPrefix(string(raw), "[") {
		return DType{}, unsupported("structured data type %s", excerpt(raw))
	}
	name, err := parseString("dtype", raw)
	if err != nil {
		return DType{}, err
	}
	if name == "bfloat16" { // tensorstore's spelling
		return DType{DType: nd.BF16, Name: name}, nil
	}
	if len(name) < 2 || !strings.Contains("<>|", name[:1]) {
		return DType{}, unknownDTypeV2(name)
	}
	return typeString(name, name[0], name[1:])
}

// unknownDTypeV2 tells names of other types, "int4", from broken type strings.
func unknownDTypeV2(name string) error {
	if name != "" && name[0] >= 'a' && name[0] <= 'z' {
		return unsupported("data type %q", name)
	}
	return corrupt(`data type %q does not start with a byte order "<", ">" or "|"`, name)
}

func typeString(name string, order byte, code string) (DType, error) {
	if kind := code[0]; kind == 'M' || kind == 'm' {
		d, err := timeTypeV2(name, code)
		if err == nil && order == '|' {
			err = corrupt("data type %q lacks a byte order", name)
		}
		d.Big = order == '>'
		return d, err
	}
	d, ok := numericV2(code)
	if !ok {
		return DType{}, unsupported("data type %q", name)
	}
	if order == '|' && d.Size() > 1 {
		return DType{}, corrupt("data type %q lacks a byte order", name)
	}
	return DType{DType: d, Name: name, Big: order == '>' && d.Size() > 1}, nil
}

func numericV2(code string) (nd.DType, bool) {
	switch code {
	case "b1":
		return nd.Bool, true
	case "i1":
		return nd.I8, true
	case "i2":
		return nd.I16, true
	case "i4":
		return nd.I32, true
	case "i8":
		return nd.I64, true
	case "u1":
		return nd.U8, true
	case "u2":
		return nd.U16, true
	case "u4":
		return nd.U32, true
	case "u8":
		return nd.U64, true
	case "f2":
		return nd.F16, true
	case "f4":
		return nd.F32, true
	case "f8":
		return nd.F64, true
	case "c8":
		return nd.C64, true
	case "c16":
		return nd.C128, true
	}
	return nd.Invalid, false
}

// timeTypeV2 reads "M8[ns]"; "M8" alone is numpy's generic unit.
func timeTypeV2(name, code string) (DType, error) {
	rest, ok := strings.CutPrefix(code[1:], "8")
	if !ok {
		return DType{}, corrupt("data type %q: datetime64 and timedelta64 have 8 bytes", name)
	}
	if rest == "" {
		return timeType(name, code[0], "generic")
	}
	if len(rest) < 3 || rest[0] != '[' || rest[len(rest)-1] != ']' {
		return DType{}, corrupt("data type %q: the unit is not in brackets", name)
	}
	return timeType(name, code[0], rest[1:len(rest)-1])
}
