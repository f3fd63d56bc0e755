// Package jsonframe is the form of messages that the launcher's protocols share: a
// length in four bytes, big-endian, and so many bytes of JSON.
package jsonframe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/headrace/headrace/nd"
)

const headBytes = 4

// Encode is a message with its length in front; nd.ErrBudget for one of more bytes
// than the limit, nd.ErrConfig for a number that JSON does not have.
func Encode(message any, limit int) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "message: %w", err)
	}
	if len(text) > limit {
		return nil, tooLong(len(text), limit)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, headBytes+len(text)), uint32(len(text))), text...), nil
}

// Read reads the text of one message. io.EOF is an end between two, a length beyond
// the limit is nd.ErrBudget. The text is taken as it comes: a length that promises
// more than is sent costs no memory.
func Read(r io.Reader, limit int) ([]byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit) {
		return nil, tooLong(n, limit)
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, n); err != nil {
		if err == io.EOF { //nolint:errorlint // as readers return it
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return text.Bytes(), nil
}

func tooLong[N int | int64](n N, limit int) error {
	return nd.Errorf(nd.ErrBudget, "a message of %d bytes, at most %d are taken", n, limit)
}
