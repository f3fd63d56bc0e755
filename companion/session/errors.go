package session

import (
	"context"
	"errors"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// Status is what a request came to, beside its error. The values are part of the C
// interface and of the companion's protocol.
type Status int32

// The statuses.
const (
	Done   Status = 0
	Again  Status = 1  // the timeout passed, or there is no room: ask again
	Ended  Status = 2  // the end of an epoch, or of what was pushed
	Failed Status = -1 // see the error
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
	{agentapi.ErrView, "view"},
	{agentapi.ErrVoid, "void"},
}

// KindOf finds the kind of an error: its number and its name. What matches none
// breaks the promise of package nd and is a bug. Of several kinds joined in one
// error the first in the list counts: what ends a pipeline comes before what ends a
// sample.
func KindOf(err error) (code int32, name string) {
	for i, k := range kinds {
		if errors.Is(err, k.err) {
			return int32(i + 1), k.name
		}
	}
	return 1, kinds[0].name
}
