package dataset

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// rower gives the elements of an array, row by row. A row has scratch: one
// goroutine at a time.
type rower interface {
	// row writes the little-endian elements that follow at along the last axis, as
	// many as fit dst.
	row(dst []byte, at []int64)
}

// Fields names the fields that Array.Field may be.
func Fields() []string {
	return []string{"mask50", "lm", "em", "weather", "labels", "constant"}
}

func (a *Array) rower() (rower, error) {
	values := stream(a.Seed).sub(0)
	switch a.Field {
	case "mask50":
		if a.DType.Float() || a.DType.Complex() {
			return newNumeric(a, maskedNormal(a, values))
		}
		return newMasked(a, values), nil
	case "lm":
		return newNumeric(a, lightMicroscopy(a, values))
	case "em":
		return newNumeric(a, electronMicroscopy(a, values))
	case "weather":
		return newNumeric(a, weather(a, values))
	case "labels":
		return newNumeric(a, labels(a, values))
	case "constant":
		return newNumeric(a, constant)
	}
	return nil, nd.Errorf(nd.ErrConfig, "field %q: one of %s", a.Field, strings.Join(Fields(), ", "))
}

// values is a field in float64: it gives the elements from at on along the last
// axis, as many as fit dst.
type values func(dst []float64, at []int64)

// numeric turns values into elements by the engine's conversion rules: truncated
// and clamped for integers. A bool is true where the value is not 0; the
// imaginary part of a complex value is minus half its real part.
type numeric struct {
	values  values
	dtype   nd.DType
	convert codec.Convert
	floats  []float64
	raw     []byte
}

func newNumeric(a *Array, v values) (*numeric, error) {
	to := a.DType
	switch to {
	case nd.Bool:
		to = nd.U8
	case nd.C64:
		to = nd.F32
	case nd.C128:
		to = nd.F64
	}
	convert, err := codec.Converter(nd.F64, to, false, nil)
	return &numeric{values: v, dtype: a.DType, convert: convert}, err
}

func (f *numeric) row(dst []byte, at []int64) {
	n := len(dst) / f.dtype.Size()
	f.floats = append(f.floats[:0], make([]float64, n)...)
	f.values(f.floats, at)
	f.raw = f.raw[:0]
	for _, v := range f.floats {
		f.raw = binary.LittleEndian.AppendUint64(f.raw, math.Float64bits(v))
		if f.dtype.Complex() {
			f.raw = binary.LittleEndian.AppendUint64(f.raw, math.Float64bits(-v/2))
		}
	}
	f.convert(dst, f.raw, len(f.raw)/8)
	if f.dtype == nd.Bool {
		for i, b := range dst {
			dst[i] = min(b, 1)
		}
	}
}

// masked is mask50 for integers: full-range values, kept where the mask's draw
// lies below the entropy.
type masked struct {
	values, wide stream // wide holds the values of 8-byte types
	shape        []int64
	dtype        nd.DType
	keep         uint64 // of 2^32
}

func newMasked(a *Array, values stream) *masked {
	keep := min(max(a.Entropy, 0), 1) * (1 << 32)
	return &masked{values: values, wide: values.sub(1), shape: a.Shape, dtype: a.DType, keep: uint64(keep)}
}

func (m *masked) row(dst []byte, at []int64) {
	i := linear(m.shape, at)
	size := m.dtype.Size()
	for ; len(dst) >= size; dst, i = dst[size:], i+1 {
		h := m.values.at(i)
		v := h & 0xFFFFFFFF
		if size == 8 {
			v = m.wide.at(i)
		}
		if h>>32 >= m.keep {
			v = 0
		}
		switch {
		case m.dtype == nd.Bool:
			dst[0] = byte(v & 1)
		case size == 1:
			dst[0] = byte(v)
		case size == 2:
			binary.LittleEndian.PutUint16(dst, uint16(v))
		case size == 4:
			binary.LittleEndian.PutUint32(dst, uint32(v))
		case size == 8:
			binary.LittleEndian.PutUint64(dst, v)
		}
	}
}

// maskedNormal is mask50 for floating types.
func maskedNormal(a *Array, s stream) values {
	mask, shape, entropy := s.sub(2), a.Shape, a.Entropy
	return func(dst []float64, at []int64) {
		i := linear(shape, at)
		for j := range dst {
			dst[j] = 0
			if mask.unit(i) < entropy {
				dst[j] = s.normal(i)
			}
			i++
		}
	}
}

// linear is the C-order index of a coordinate, modulo 2^64.
func linear(shape, at []int64) (i uint64) {
	for axis, x := range at {
		i = i*uint64(shape[axis]) + uint64(x)
	}
	return i
}
