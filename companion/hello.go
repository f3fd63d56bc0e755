package companion

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"

	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/nd"
)

// magic begins every connection.
const magic = "headrace"

// MaxHello bounds the JSON of a greeting: an environment is the largest part.
const MaxHello = 16 << 20

// Hello is what a client says of itself.
type Hello struct {
	// Release is the version of the client's package.
	Release string `json:"release"`
	// PID is the process that the connection belongs to, in the client's own view.
	PID int `json:"pid"`
	// Env is its environment: of rank and world.
	Env map[string]string `json:"env"`
	// Memory lists the kinds of memory that it can open.
	Memory []string `json:"memory"`
}

// Welcome is the engine's answer: an error in one line, or what it is.
type Welcome struct {
	Error   *Refusal `json:"error,omitempty"`
	Release string   `json:"release"`
	Device  string   `json:"device"`
	PID     int      `json:"pid"`
}

// Refusal is an error as it is sent: its kind, see session.KindOf, and its text.
type Refusal struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func refusal(err error) *Refusal {
	_, name := session.KindOf(err)
	return &Refusal{name, err.Error()}
}

// appendGreeting appends a greeting as it is sent.
func appendGreeting(dst []byte, version uint32, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBug, "greeting: %w", err)
	}
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)))
	return append(dst, text...), nil
}

const greetingBytes = len(magic) + 8

// readGreeting reads the other side's greeting. The version is looked at before
// anything that depends on it.
func readGreeting(r io.Reader, into any) error {
	head := make([]byte, greetingBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return nd.Errorf(nd.ErrIO, "greeting: %w", err)
	}
	if !bytes.HasPrefix(head, []byte(magic)) {
		return nd.Errorf(nd.ErrUnsupported, "this is the socket of a headrace engine, and the other side does not speak its protocol")
	}
	if v := binary.LittleEndian.Uint32(head[len(magic):]); v != Version {
		return nd.Errorf(nd.ErrUnsupported, "the engine speaks version %d of the protocol, the client %d: install the same headrace on both sides", Version, v)
	}
	n := binary.LittleEndian.Uint32(head[len(magic)+4:])
	if n > MaxHello {
		return nd.Errorf(nd.ErrBudget, "a greeting of %d bytes, at most %d are taken", n, MaxHello)
	}
	text, err := readPayload(r, int(n))
	if err != nil {
		return nd.Errorf(nd.ErrIO, "greeting: %w", err)
	}
	return parseStrict(text, into)
}

// withDescriptors reads from a connection and keeps the descriptors that come.
// Reading past the greeting with it would mix them up with those of later frames.
type withDescriptors struct {
	conn *net.UnixConn
	fds  []int
}

func (r *withDescriptors) Read(p []byte) (int, error) {
	oob := make([]byte, 256)
	n, oobn, flags, _, err := r.conn.ReadMsgUnix(p, oob)
	if oobn > 0 {
		fds, bad := descriptors(oob[:oobn], flags)
		r.fds = append(r.fds, fds...)
		if bad == nil && len(r.fds) > 1 {
			bad = nd.Errorf(nd.ErrBug, "%d descriptors, must be one", len(r.fds))
		}
		if bad != nil {
			return n, bad
		}
	}
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}
