package codec

import (
	"errors"
	"fmt"

	"github.com/headrace/headrace/nd"
)

// errTorn is the cause of every error about a stream that ends too early.
var errTorn = errors.New("the stream ends within it")

// unsupportedError is a cause that makes the error around it one of kind
// nd.ErrUnsupported. All other causes are corrupt bytes.
type unsupportedError string

func (e unsupportedError) Error() string { return string(e) }

func unsupported(format string, args ...any) error {
	return unsupportedError(fmt.Sprintf(format, args...))
}

func kindOf(cause error) error {
	if _, ok := errors.AsType[unsupportedError](cause); ok {
		return nd.ErrUnsupported
	}
	return nd.ErrCorrupt
}

// errRoom is the cause of errors about a stream that holds more bytes than the
// caller has room for.
var errRoom = errors.New("no room")

// failed makes the error of a codec from its cause; limit is the caller's room.
func failed(codec string, limit int, cause error) error {
	if errors.Is(cause, errRoom) {
		return tooLong(codec, limit)
	}
	return nd.Errorf(kindOf(cause), "%s: %w", codec, cause)
}

// tooLong is the error of a decoder whose output passes the caller's limit.
func tooLong(codec string, limit int) error {
	return nd.Errorf(nd.ErrCorrupt, "%s: decodes to more than the expected %d bytes", codec, limit)
}
