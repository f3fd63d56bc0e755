package nd

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The kinds of errors. Every error that leaves a package of headrace matches
// exactly one of them under errors.Is, save for context errors and io.EOF.
var (
	// ErrCorrupt: the stored bytes contradict the format or their checksum.
	ErrCorrupt = errors.New("corrupt data")
	// ErrUnsupported: the data is legal, but headrace does not read it.
	ErrUnsupported = errors.New("not supported")
	// ErrNotFound: there is no array, group or file of this name.
	ErrNotFound = errors.New("not found")
	// ErrShape: rank, shape, box or dtype does not fit the array or the field.
	ErrShape = errors.New("shape mismatch")
	// ErrIO: the store failed; the same read may work later.
	ErrIO = errors.New("I/O error")
	// ErrDevice: the GPU or its driver failed.
	ErrDevice = errors.New("device error")
	// ErrClosed: the object was used after Close or after its last Release.
	ErrClosed = errors.New("closed")
	// ErrBudget: the work does not fit a byte or count limit of the config.
	ErrBudget = errors.New("over budget")
	// ErrConfig: a field of a config has an impossible value.
	ErrConfig = errors.New("bad config")
	// ErrBug: headrace broke one of its own invariants.
	ErrBug = errors.New("bug in headrace")
)

// Place says where a failure happened. Empty fields are not known.
type Place struct {
	Array  string // URI of the array
	Chunk  string // grid coordinates of the chunk, "1/0/3"
	File   string // key or path of the stored object
	Offset int64  // first byte of the range that failed, within File
	Length int64  // bytes of that range, 0 if not known
}

// Error is a failure of one kind at one place.
type Error struct {
	Kind   error // one of the sentinels of this package
	Detail string
	Place
	Err error // the cause, may be nil
}

// Errorf makes an error of the given kind without a place; %w in the format
// keeps the cause.
func Errorf(kind error, format string, args ...any) error {
	cause := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Detail: cause.Error(), Err: errors.Unwrap(cause)}
}

// At fills in the fields of the place that err does not know yet. An error that
// holds no *Error becomes one of kind ErrIO; one that wraps or joins some keeps its
// text and takes the kind of the first. Context errors pass unchanged.
func At(err error, place Place) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error) //nolint:errorlint // only the outermost error's place is filled in
	if !ok {
		kind := ErrIO
		if errors.As(err, &e) {
			kind = e.Kind
		} else if isContext(err) {
			return err
		}
		return &Error{Kind: kind, Detail: err.Error(), Place: place, Err: err}
	}
	c := *e
	if c.Array == "" {
		c.Array = place.Array
	}
	if c.Chunk == "" {
		c.Chunk = place.Chunk
	}
	if c.File == "" {
		c.File, c.Offset, c.Length = place.File, place.Offset, place.Length
	}
	return &c
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (e *Error) Error() string {
	var where []string
	add := func(name, value string) {
		if value != "" {
			where = append(where, name+" "+value)
		}
	}
	add("array", e.Array)
	add("chunk", e.Chunk)
	add("file", e.File)
	if e.Length > 0 {
		where = append(where, fmt.Sprintf("bytes %d+%d", e.Offset, e.Length))
	}
	text := e.Kind.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if len(where) > 0 {
		text += " (" + strings.Join(where, ", ") + ")"
	}
	return text
}

// Unwrap gives errors.Is both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
