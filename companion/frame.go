package companion

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/headrace/headrace/nd"
)

const (
	// Version is that of the protocol. Both sides must have the same.
	Version = 1
	// MaxFrame bounds the payload of a frame: a list of some million crops.
	MaxFrame = 256 << 20
	// headerBytes is the length of a frame's header.
	headerBytes = 16
)

// kind is what a frame is.
type kind uint8

const (
	kindOpen   kind = 1
	kindAsk    kind = 2
	kindClose  kind = 3
	kindPush   kind = 4
	kindNext   kind = 5
	kindCancel kind = 6

	kindResult kind = 64
	kindAgain  kind = 65
	kindEnded  kind = 66
	kindError  kind = 67
	kindBatch  kind = 68
	kindForget kind = 69
)

// frame is one message after the greetings.
type frame struct {
	kind    kind
	fds     int
	id      uint64
	payload []byte
}

// bytes is the frame as it is sent.
func (f *frame) bytes() []byte {
	dst := make([]byte, 0, headerBytes+len(f.payload))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.payload)))
	dst = append(dst, byte(f.kind), byte(f.fds), 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, f.id)
	return append(dst, f.payload...)
}

// readFrame reads a frame. io.EOF is an end between two frames. The payload is
// taken as it comes: a length that promises more than is sent costs no memory.
func readFrame(r io.Reader) (frame, error) {
	var head [headerBytes]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return frame{}, err
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return frame{}, truncated(err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	f := frame{kind: kind(head[4]), fds: int(head[5]), id: binary.LittleEndian.Uint64(head[8:])}
	if n > MaxFrame {
		return f, nd.Errorf(nd.ErrBudget, "a frame of %d bytes, at most %d are taken", n, MaxFrame)
	}
	if head[6] != 0 || head[7] != 0 {
		return f, nd.Errorf(nd.ErrBug, "a frame's header ends in %x, not in zeros", head[6:8])
	}
	var err error
	f.payload, err = readPayload(r, int(n))
	return f, err
}

// smallPayload is read in one piece.
const smallPayload = 64 << 10

func readPayload(r io.Reader, n int) ([]byte, error) {
	if n <= smallPayload {
		p := make([]byte, n)
		_, err := io.ReadFull(r, p)
		return p, truncated(err)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, truncated(err)
	}
	return b.Bytes(), nil
}

// truncated is the error of a stream that ends within a message.
func truncated(err error) error {
	if err == io.EOF { //nolint:errorlint // as readers return it
		return io.ErrUnexpectedEOF
	}
	return err
}

// request is a frame from a client, parsed.
type request struct {
	kind     kind
	id       uint64
	size     int // bytes of the payload
	open     json.RawMessage
	ask      ask
	handle   uint64 // close, push, next
	samples  int    // push
	words    []int64
	waitInMS uint32 // next
	refused  error  // what is wrong with it beside the others; its payload is dropped
}

// ask is the payload of an ask.
type ask struct {
	Handle   uint64          `json:"handle"`
	Method   string          `json:"method"`
	Argument json.RawMessage `json:"argument"`
}

// parseRequest checks everything of a request that needs no session.
func parseRequest(f frame) (request, error) {
	r := request{kind: f.kind, id: f.id, size: len(f.payload)}
	if f.fds != 0 {
		return r, nd.Errorf(nd.ErrBug, "a request with %d descriptors", f.fds)
	}
	if f.id == 0 {
		return r, nd.Errorf(nd.ErrBug, "a request with id 0")
	}
	switch f.kind {
	case kindOpen:
		r.open = f.payload
		return r, nil
	case kindAsk:
		return r, parseStrict(f.payload, &r.ask)
	case kindClose:
		return r, r.numbers(f.payload, 8, 0)
	case kindPush:
		return r, r.push(f.payload)
	case kindNext:
		return r, r.numbers(f.payload, 16, 8)
	case kindCancel:
		return r, r.numbers(f.payload, 0, 0)
	}
	return r, nd.Errorf(nd.ErrBug, "a request of kind %d, which version %d of the protocol does not have", f.kind, Version)
}

// numbers reads a payload of exactly so many bytes: a handle, and at timeout, if
// that is not 0, a number of milliseconds.
func (r *request) numbers(p []byte, size, timeout int) error {
	if len(p) != size {
		return nd.Errorf(nd.ErrBug, "a request of kind %d has %d bytes, must have %d", r.kind, len(p), size)
	}
	if size > 0 {
		r.handle = binary.LittleEndian.Uint64(p)
	}
	if timeout > 0 {
		r.waitInMS = binary.LittleEndian.Uint32(p[timeout:])
		return zero(p[timeout+4:])
	}
	return nil
}

func (r *request) push(p []byte) error {
	if len(p) < 16 || len(p)%8 != 0 {
		return nd.Errorf(nd.ErrBug, "a push of %d bytes: 16, and 8 for each word", len(p))
	}
	r.handle = binary.LittleEndian.Uint64(p)
	samples := binary.LittleEndian.Uint32(p[8:])
	r.words = make([]int64, len(p)/8-2)
	for i := range r.words {
		r.words[i] = int64(binary.LittleEndian.Uint64(p[16+8*i:]))
	}
	if int64(samples) > int64(len(r.words)) { // each has an id at least
		return nd.Errorf(nd.ErrBug, "a push of %d samples in %d words", samples, len(r.words))
	}
	r.samples = int(samples)
	return zero(p[12:16])
}

func zero(p []byte) error {
	for _, b := range p {
		if b != 0 {
			return nd.Errorf(nd.ErrBug, "bytes that must be zero are %x", p)
		}
	}
	return nil
}

// parseStrict reads one JSON value; unknown names are errors.
func parseStrict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return nd.Errorf(nd.ErrBug, "JSON of the protocol: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nd.Errorf(nd.ErrBug, "JSON of the protocol: more than one value")
	}
	return nil
}
