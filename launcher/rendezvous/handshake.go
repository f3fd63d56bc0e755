package rendezvous

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/jsonframe"
	"github.com/headrace/headrace/nd"
)

// nonceBytes is the length of a challenge.
const nonceBytes = 32

// greeting is the first message of each side, the client's first. It is the same in
// all versions, so that any two can tell each other their own.
type greeting struct {
	Protocol string `json:"protocol"`
	Version  int    `json:"version"`
	Nonce    []byte `json:"nonce"`
}

// proof is the second: that its sender has the key, which is not sent.
type proof struct {
	MAC     []byte `json:"mac"`
	Refused string `json:"refused,omitempty"` // instead, from the server
}

// errNotOurs is the error of a peer that speaks something else, or another version
// of the protocol, or has another key: trying again does not help.
var errNotOurs = errors.New("not of this job")

// shake does the handshake with a peer: version, then challenge and response both
// ways. The server proves its key after the client has, so that who has no key
// learns nothing of it.
func shake(conn net.Conn, key []byte, server bool, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nd.Errorf(nd.ErrIO, "handshake: %w", err)
	}
	mine := greeting{Protocol: protocol, Version: version, Nonce: make([]byte, nonceBytes)}
	_, _ = rand.Read(mine.Nonce) // it does not fail
	var err error
	if server {
		err = serverShake(conn, key, &mine)
	} else {
		err = clientShake(conn, key, &mine)
	}
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

func clientShake(conn net.Conn, key []byte, mine *greeting) error {
	if err := write(conn, mine); err != nil {
		return err
	}
	var theirs greeting
	if err := read(conn, &theirs); err != nil {
		return err
	}
	if err := theirs.check(); err != nil {
		return err
	}
	if err := write(conn, proof{MAC: response(key, "client", mine.Nonce, theirs.Nonce)}); err != nil {
		return err
	}
	var p proof
	if err := read(conn, &p); err != nil {
		return err
	}
	if p.Refused != "" {
		return nd.Errorf(nd.ErrConfig, "%w: %s", errNotOurs, p.Refused)
	}
	if !hmac.Equal(p.MAC, response(key, "server", mine.Nonce, theirs.Nonce)) {
		return nd.Errorf(nd.ErrConfig, "%w: the other side does not have the key", errNotOurs)
	}
	return nil
}

func serverShake(conn net.Conn, key []byte, mine *greeting) error {
	var theirs greeting
	if err := read(conn, &theirs); err != nil {
		return err
	}
	// Whoever speaks another version learns ours before we hang up.
	if err := errors.Join(write(conn, mine), theirs.check()); err != nil {
		return err
	}
	var p proof
	if err := read(conn, &p); err != nil {
		return err
	}
	if !hmac.Equal(p.MAC, response(key, "client", theirs.Nonce, mine.Nonce)) {
		const why = "the keys differ: run id, endpoint port and --key-file (HEADRACE_KEY_FILE) must be the same on every node"
		return errors.Join(nd.Errorf(nd.ErrConfig, "%w: %s", errNotOurs, why), write(conn, proof{Refused: why}))
	}
	return write(conn, proof{MAC: response(key, "server", theirs.Nonce, mine.Nonce)})
}

func (g *greeting) check() error {
	switch {
	case g.Protocol != protocol || len(g.Nonce) != nonceBytes:
		return nd.Errorf(nd.ErrUnsupported, "%w: what answers is no headrace rendezvous", errNotOurs)
	case g.Version != version:
		return nd.Errorf(nd.ErrUnsupported, "%w: it speaks version %d of the rendezvous, this node %d: install the same headrace on every node", errNotOurs, g.Version, version)
	}
	return nil
}

// response is what proves the key: each side's over both challenges, and not the
// other's, so that neither can be played back.
func response(key []byte, side string, client, server []byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range [][]byte{[]byte(protocol), []byte(side), client, server} {
		_, _ = mac.Write(part) // the nonces have a fixed length: no two inputs look alike
	}
	return mac.Sum(nil)
}

// token is what the master's node answers to a probe: it shows the job, of which
// several may have one key, and the check.
func token(key []byte, runID string, attempt int) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("probe " + strconv.Itoa(attempt) + " " + runID))
	return []byte(hex.EncodeToString(mac.Sum(nil)))
}

func write(conn net.Conn, v any) error {
	text, err := frame(v)
	if err != nil {
		return err
	}
	if _, err := conn.Write(text); err != nil {
		return nd.Errorf(nd.ErrIO, "handshake: %w", err)
	}
	return nil
}

func read(conn net.Conn, v any) error {
	text, err := jsonframe.Read(conn, maxFirst)
	switch {
	case errors.Is(err, nd.ErrBudget): // the first bytes of another protocol are a length beyond all limits
		return nd.Errorf(nd.ErrUnsupported, "%w: what answers is no headrace rendezvous", errNotOurs)
	case errors.Is(err, io.EOF):
		return nd.Errorf(nd.ErrIO, "it hung up: %w", err)
	case err != nil:
		return nd.Errorf(nd.ErrIO, "%w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return nd.Errorf(nd.ErrUnsupported, "%w: what answers is no headrace rendezvous", errNotOurs)
	}
	return nil
}

// explain says in a few words why a peer could not be reached, the hop that failed
// first.
func explain(err error, host, address string) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "cannot resolve " + host + ": " + dns.Err
	case errors.Is(err, errNotOurs):
		return address + " is " + errorText(err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer from " + address
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE): // whose texts are others each time
		return "what listens at " + address + " hung up"
	case isRefused(err):
		return "nobody listens at " + address
	}
	return address + ": " + errorText(err)
}

// errorText is an error without its kind.
func errorText(err error) string {
	if e, ok := errors.AsType[*nd.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}
