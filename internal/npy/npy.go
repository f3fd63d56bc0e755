// Package npy writes the header of numpy's .npy files (NEP 1); the elements
// follow it as they are, in C order.
package npy

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Descr is numpy's name of an element type on disk. bfloat16, which numpy does
// not know, becomes two raw bytes, '<V2'.
func Descr(d nd.DType) string {
	kind := "V"
	switch {
	case d == nd.Bool:
		return "|b1"
	case d == nd.BF16:
	case d.Signed():
		kind = "i"
	case d.Unsigned():
		kind = "u"
	case d.Float():
		kind = "f"
	case d.Complex():
		kind = "c"
	}
	order := "<"
	if d.Size() == 1 {
		order = "|"
	}
	return fmt.Sprintf("%s%s%d", order, kind, d.Size())
}

// TimeDescr names 64-bit integers that are points in time (kind 'M') or spans of
// time (kind 'm') in a unit such as "ns"; "" and "generic" are none.
func TimeDescr(kind byte, unit string) string {
	if unit == "" || unit == "generic" {
		return fmt.Sprintf("<%c8", kind)
	}
	return fmt.Sprintf("<%c8[%s]", kind, unit)
}

// Header is everything before the elements. Its length is a multiple of 64, so
// that a mapped file is aligned.
func Header(descr string, shape []int64) []byte {
	extents := make([]string, len(shape))
	for i, n := range shape {
		extents[i] = fmt.Sprint(n)
	}
	tuple := strings.Join(extents, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const version1 = len("\x93NUMPY") + 2 + 2
	if padded := pad(text, version1); len(padded) <= math.MaxUint16 {
		head := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(padded)))
		return append(head, padded...)
	}
	padded := pad(text, version1+2)
	head := binary.LittleEndian.AppendUint32([]byte("\x93NUMPY\x02\x00"), uint32(len(padded)))
	return append(head, padded...)
}

// pad appends spaces and a newline up to a multiple of 64, counted from the
// start of the file.
func pad(text string, before int) string {
	n := before + len(text) + 1
	return text + strings.Repeat(" ", (64-n%64)%64) + "\n"
}
