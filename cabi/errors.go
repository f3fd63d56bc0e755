package main

import (
	"context"
	"errors"

	"github.com/headrace/headrace/nd"
)

// status is what an export returns; the values are those of headrace.h.
type status int32

const (
	done   status = 0
	again  status = 1
	ended  status = 2
	failed status = -1
)

// kinds gives each kind of error its number (its place here, from 1) and its name
// on the other side. Only ever append: Python picks the exception by name.
var kinds = []struct {
	err  error
	name string
}{
	{nd.ErrBug, "bug"},
	{nd.ErrClosed, "closed"},
	{nd.ErrConfig, "config"},
	{nd.ErrBudget, "budget"},
	{nd.ErrDevice, "device"},
	{nd.ErrCorrupt, "corrupt"},
	{nd.ErrUnsupported, "unsupported"},
	{nd.ErrNotFound, "not_found"},
	{nd.ErrShape, "shape"},
	{nd.ErrIO, "io"},
	{context.Canceled, "cancelled"},
}

// kindOf finds the kind of an error. What matches none breaks the promise of
// package nd and is a bug. Of several kinds joined in one error the first in the
// list counts: what ends a pipeline comes before what ends a sample.
func kindOf(err error) (code int32, name string) {
	for i, k := range kinds {
		if errors.Is(err, k.err) {
			return int32(i + 1), k.name
		}
	}
	return 1, kinds[0].name
}
