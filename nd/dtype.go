package nd

import (
	"fmt"
	"strings"
)

// DType is the type of one element of an array or of a batch. In memory every
// element is little-endian.
type DType uint8

// The element types. Complex types are pairs of floats, real part first;
// datetime64 and timedelta64 arrays are I64.
const (
	Invalid DType = iota
	Bool
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	F16
	BF16
	F32
	F64
	C64
	C128
	numDTypes
)

type dtypeFacts struct {
	short, full string
	size        int
}

var dtypes = [numDTypes]dtypeFacts{
	Invalid: {"invalid", "invalid", 0},
	Bool:    {"bool", "bool", 1},
	I8:      {"i8", "int8", 1},
	I16:     {"i16", "int16", 2},
	I32:     {"i32", "int32", 4},
	I64:     {"i64", "int64", 8},
	U8:      {"u8", "uint8", 1},
	U16:     {"u16", "uint16", 2},
	U32:     {"u32", "uint32", 4},
	U64:     {"u64", "uint64", 8},
	F16:     {"f16", "float16", 2},
	BF16:    {"bf16", "bfloat16", 2},
	F32:     {"f32", "float32", 4},
	F64:     {"f64", "float64", 8},
	C64:     {"c64", "complex64", 8},
	C128:    {"c128", "complex128", 16},
}

// DTypes lists every valid element type.
func DTypes() []DType {
	all := make([]DType, 0, numDTypes-1)
	for d := Bool; d < numDTypes; d++ {
		all = append(all, d)
	}
	return all
}

// ParseDType accepts the short and the full name of a type in any case:
// "f32" or "float32".
func ParseDType(name string) (DType, error) {
	lower := strings.ToLower(name)
	for d := Bool; d < numDTypes; d++ {
		if lower == dtypes[d].short || lower == dtypes[d].full {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown dtype %q: one of %s", name, dtypeNames())
}

func dtypeNames() string {
	names := make([]string, 0, numDTypes-1)
	for _, d := range DTypes() {
		names = append(names, d.String())
	}
	return strings.Join(names, " ")
}

// Valid reports whether d is one of the types of this package.
func (d DType) Valid() bool { return d > Invalid && d < numDTypes }

// Size is the number of bytes of one element, 0 for Invalid.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].size
}

// String is the short name, "f32".
func (d DType) String() string {
	if !d.Valid() {
		return "invalid"
	}
	return dtypes[d].short
}

// Name is the full name, "float32", as numpy and zarr v3 spell it.
func (d DType) Name() string {
	if !d.Valid() {
		return "invalid"
	}
	return dtypes[d].full
}

// Signed reports whether d is a signed integer.
func (d DType) Signed() bool { return d >= I8 && d <= I64 }

// Unsigned reports whether d is an unsigned integer. Bool is not one.
func (d DType) Unsigned() bool { return d >= U8 && d <= U64 }

// Float reports whether d is a real floating type.
func (d DType) Float() bool { return d >= F16 && d <= F64 }

// Complex reports whether d is a pair of floats.
func (d DType) Complex() bool { return d == C64 || d == C128 }

// Word is the size of the unit that a byte swap works on: the element, or one
// half of a complex element.
func (d DType) Word() int {
	if d.Complex() {
		return d.Size() / 2
	}
	return d.Size()
}
