package agentapi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/headrace/headrace/nd"
)

const (
	// Protocol names the protocol in both hellos.
	Protocol = "headrace-agent"
	// Version is that of the protocol. Both sides must have the same.
	Version = 1
	// MaxMessage bounds a message: a plan of maxSpans spans.
	MaxMessage = 4 << 20
	maxHello   = 4 << 10
)

// frame is a message with its length in front.
func frame(m *message) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "message: %w", err) // a number that JSON does not have
	}
	limit := MaxMessage
	if m.Type == typeHello {
		limit = maxHello
	}
	if len(text) > limit {
		return nil, nd.Errorf(nd.ErrBudget, "a message of %d bytes, at most %d are taken", len(text), limit)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...), nil
}

// readFrame reads the text of one message. io.EOF is an end between two. The text
// is taken as it comes: a length that promises more than is sent costs no memory.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(limit) {
		return nil, nd.Errorf(nd.ErrBudget, "a message of %d bytes, at most %d are taken", n, limit)
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, int64(n)); err != nil {
		if err == io.EOF { //nolint:errorlint // as readers return it
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return text.Bytes(), nil
}

func readMessage(r io.Reader, limit int) (message, error) {
	text, err := readFrame(r, limit)
	if err != nil {
		return message{}, err
	}
	return parseMessage(text)
}
