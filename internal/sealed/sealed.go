// Package sealed carries messages over a stream between two processes that know the
// same key: encrypted, whole, in order and none twice, or the stream ends.
//
// Each side sends 32 random bytes. Of these and the key each direction gets a key of its
// own (HKDF-SHA-256, RFC 5869), and its messages are sealed with AES-256-GCM under
// the nonces 0, 1, 2 and on. So a recording of another stream opens nothing, and a
// message that is lost, repeated or changed does not open. The first message of each side
// is empty, and sent with the one after it: who does not know the key shows by it, and is
// given memory for no more than that.
//
//	client:  random (32)   ──▶          ◀──  random (32)
//	both:    length (4, big-endian) ‖ sealed message, and on; the first is empty
//
// There is no forward secrecy: who learns the key can read what was recorded. Without a key
// the messages go in the clear, in the same frames, without the empty one; that is for
// loopback.
package sealed

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/headrace/headrace/nd"
)

// MinKey is the least length of a key.
const MinKey = 16

const (
	randomBytes = 32
	// helloTimeout bounds the exchange at the begin: both sides have nothing to think
	// about.
	helloTimeout = 10 * time.Second
)

// Conn is one side of a stream. Read is one goroutine's, Write may be called by many.
type Conn struct {
	net.Conn
	// Claim is asked before a message of so many bytes on the wire is read; false ends the
	// stream. It is set before the first Receive; nil: all are taken.
	Claim func(n int) bool

	in    *bufio.Reader
	opens direction

	mu    sync.Mutex
	seals direction
	out   []byte
}

// direction is the messages one way.
type direction struct {
	aead cipher.AEAD // nil: in the clear
	next uint64
}

// Client begins a stream as the side that dialled. It does not close conn when it
// fails.
func Client(conn net.Conn, key []byte) (*Conn, error) { return begin(conn, key, true) }

// Server begins a stream as the side that accepted.
func Server(conn net.Conn, key []byte) (*Conn, error) { return begin(conn, key, false) }

func begin(conn net.Conn, key []byte, client bool) (*Conn, error) {
	c := &Conn{Conn: conn, in: bufio.NewReader(conn)}
	if len(key) == 0 {
		return c, nil
	}
	if len(key) < MinKey {
		return nil, nd.Errorf(nd.ErrConfig, "a key of %d bytes: at least %d are wanted", len(key), MinKey)
	}
	ours, theirs := make([]byte, randomBytes), make([]byte, randomBytes)
	_, _ = rand.Read(ours) // it never fails
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	if _, err := conn.Write(ours); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	if _, err := io.ReadFull(c.in, theirs); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "stream: the other side sends no hello: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	salt := append(ours, theirs...)
	if !client {
		salt = append(theirs, ours...)
	}
	up, err := newDirection(key, salt, "headrace/sealed/1 up")
	if err != nil {
		return nil, err
	}
	down, err := newDirection(key, salt, "headrace/sealed/1 down")
	if err != nil {
		return nil, err
	}
	if client {
		c.seals, c.opens = up, down
	} else {
		c.seals, c.opens = down, up
	}
	return c, nil
}

func newDirection(key, salt []byte, info string) (direction, error) {
	derived, err := hkdf.Key(sha256.New, key, salt, info, 32)
	if err != nil {
		return direction{}, nd.Errorf(nd.ErrBug, "stream: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return direction{}, nd.Errorf(nd.ErrBug, "stream: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return direction{}, nd.Errorf(nd.ErrBug, "stream: %w", err)
	}
	return direction{aead: aead}, nil
}

func (d *direction) nonce() []byte {
	var n [12]byte
	binary.BigEndian.PutUint64(n[4:], d.next)
	d.next++
	return n[:]
}

// overhead is what sealing adds.
func (d *direction) overhead() int {
	if d.aead == nil {
		return 0
	}
	return d.aead.Overhead()
}

// unproved reports whether the empty message that shows the key is the next.
func (d *direction) unproved() bool { return d.aead != nil && d.next == 0 }

// frame appends a message as it is on the wire.
func (d *direction) frame(out, message []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(message)+d.overhead()))
	out = append(out, head...)
	if d.aead == nil {
		return append(out, message...)
	}
	return d.aead.Seal(out, d.nonce(), message, head)
}

// Send sends a message, within a time.
func (c *Conn) Send(message []byte, within time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	if c.seals.unproved() {
		c.out = c.seals.frame(c.out, nil)
	}
	c.out = c.seals.frame(c.out, message)
	if err := c.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	if _, err := c.Write(c.out); err != nil {
		return nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	if cap(c.out) > 1<<20 {
		c.out = nil
	}
	return nil
}

// Receive waits for a message of at most so many bytes. io.EOF: the other side has
// ended between two messages. nd.ErrCorrupt: what came does not open, so the other
// side has another key, or someone meddles.
func (c *Conn) Receive(limit int) ([]byte, error) {
	if c.opens.unproved() {
		if _, err := c.receive(0); err != nil {
			return nil, err
		}
	}
	return c.receive(limit)
}

func (c *Conn) receive(limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		if err == io.EOF {
			return nil, err
		}
		return nil, nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit)+int64(c.opens.overhead()) {
		return nil, nd.Errorf(nd.ErrCorrupt, "stream: a message of %d bytes, at most %d are taken; or the keys differ", n, limit)
	}
	if c.Claim != nil && !c.Claim(int(n)) {
		return nil, nd.Errorf(nd.ErrBudget, "stream: no memory for a message of %d bytes now", n)
	}
	data, err := readGrowing(c.in, int(n))
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "stream: %w", err)
	}
	if c.opens.aead == nil {
		return data, nil
	}
	plain, err := c.opens.aead.Open(data[:0], c.opens.nonce(), data, head[:])
	if err != nil {
		return nil, nd.Errorf(nd.ErrCorrupt, "stream: a message does not open: the other side has another key, or someone meddles")
	}
	return plain, nil
}

// readGrowing reads n bytes, and takes memory only as they come: the length is what anyone
// may claim.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	var data []byte
	for len(data) < n {
		some := min(step, n-len(data))
		data = append(data, make([]byte, some)...)
		if _, err := io.ReadFull(r, data[len(data)-some:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}
