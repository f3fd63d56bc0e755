package agentapi

import (
	"io"

	"github.com/headrace/headrace/internal/jsonframe"
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

// frame is a message as it is sent.
func frame(m *message) ([]byte, error) {
	if m.Type == typeHello {
		return jsonframe.Encode(m, maxHello)
	}
	return jsonframe.Encode(m, MaxMessage)
}

func readMessage(r io.Reader, limit int) (message, error) {
	text, err := jsonframe.Read(r, limit)
	if err != nil {
		return message{}, err
	}
	return parseMessage(text)
}
