package sealed

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
)

// pair is two ends of a stream, with a key each.
func pair(t testing.TB, a, b []byte) (client, server *Conn) {
	t.Helper()
	x, y := net.Pipe()
	t.Cleanup(func() { _, _ = x.Close(), y.Close() })
	// A pipe has no buffer: each hello waits for its reader.
	done := make(chan error, 1)
	go func() {
		var err error
		server, err = Server(lazy{y}, b)
		done <- err
	}()
	client, err := Client(lazy{x}, a)
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// lazy writes beside the caller, as a socket with a buffer does.
type lazy struct{ net.Conn }

func (l lazy) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	go l.Conn.Write(p) //nolint:errcheck // the reader sees what is missing
	return len(p), nil
}

var key = []byte("0123456789abcdef")

// Messages come as they were sent, both ways, of any size.
func TestMessages(t *testing.T) {
	for name, k := range map[string][]byte{"sealed": key, "clear": nil} {
		a, b := pair(t, k, k)
		for _, n := range []int{0, 1, 100, 70_000} {
			m := bytes.Repeat([]byte{7}, n)
			for _, way := range [][2]*Conn{{a, b}, {b, a}} {
				if err := way[0].Send(m, time.Minute); err != nil {
					t.Fatal(err)
				}
				got, err := way[1].Receive(70_000)
				if err != nil || !bytes.Equal(got, m) {
					t.Errorf("%s: %d bytes came as %d, %v", name, n, len(got), err)
				}
			}
		}
		if err := a.Send(make([]byte, 11), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Receive(10); !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%s: a message that is too long: %v", name, err)
		}
	}
}

// tape is a stream whose bytes the test has in hand.
type tape struct {
	net.Conn
	sent bytes.Buffer
	read bytes.Buffer
}

func (t *tape) Write(p []byte) (int, error)      { return t.sent.Write(p) }
func (t *tape) Read(p []byte) (int, error)       { return t.read.Read(p) }
func (t *tape) SetDeadline(time.Time) error      { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil }

// dialogue makes a client that has sent messages to a server, whose hello is known, and gives what
// the server would read: the client's hello and the sealed messages.
func dialogue(t *testing.T, k []byte, messages ...string) (hello []byte, frames [][]byte) {
	t.Helper()
	c := &tape{}
	c.read.Write(make([]byte, randomBytes))
	client, err := Client(c, k)
	if err != nil {
		t.Fatal(err)
	}
	hello = bytes.Clone(c.sent.Next(randomBytes))
	for _, m := range messages {
		if err := client.Send([]byte(m), time.Minute); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, bytes.Clone(c.sent.Next(c.sent.Len())))
	}
	return hello, frames
}

// hear is what a server makes of bytes, if its own hello is all zeros or, as in life,
// random.
func hear(t *testing.T, k []byte, zeros bool, stream ...[]byte) (got []string, err error) {
	t.Helper()
	s := &tape{}
	for _, b := range stream {
		s.read.Write(b)
	}
	server, err := Server(s, k)
	if err != nil {
		t.Fatal(err)
	}
	if zeros {
		salt := append(bytes.Clone(stream[0]), make([]byte, randomBytes)...)
		if server.opens, err = newDirection(k, salt, "headrace/sealed/1 up"); err != nil {
			t.Fatal(err)
		}
	}
	for {
		m, err := server.Receive(100)
		if err != nil {
			return got, err
		}
		got = append(got, string(m))
	}
}

// What is repeated, left out, out of order, changed, cut off, recorded or sealed with
// another key does not open.
func TestMeddling(t *testing.T) {
	hello, f := dialogue(t, key, "a", "b", "c")
	if got, err := hear(t, key, true, hello, f[0], f[1], f[2]); len(got) != 3 || err != io.EOF { //nolint:errorlint // as it is returned
		t.Fatalf("heard %q, %v", got, err)
	}
	changed := bytes.Clone(f[1])
	changed[len(changed)-1] ^= 1
	other := []byte("fedcba9876543210")
	for name, x := range map[string]struct {
		key    []byte
		zeros  bool
		frames [][]byte
		hears  int
	}{
		"repeated":     {key, true, [][]byte{f[0], f[0]}, 1},
		"left out":     {key, true, [][]byte{f[0], f[2]}, 1},
		"out of order": {key, true, [][]byte{f[1], f[0]}, 0},
		"changed":      {key, true, [][]byte{f[0], changed}, 1},
		"recorded":     {key, false, [][]byte{f[0]}, 0},
		"another key":  {other, true, [][]byte{f[0]}, 0},
	} {
		got, err := hear(t, x.key, x.zeros, append([][]byte{hello}, x.frames...)...)
		if len(got) != x.hears || !errors.Is(err, nd.ErrCorrupt) {
			t.Errorf("%s: heard %q, %v", name, got, err)
		}
	}
	if got, err := hear(t, key, true, hello, f[0], f[1][:10]); len(got) != 1 || !errors.Is(err, nd.ErrIO) {
		t.Errorf("cut off: heard %q, %v", got, err)
	}
	if _, err := Client(&tape{}, []byte("short")); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a short key: %v", err)
	}
}

// endless is a stream that claims a long message and goes on sending it; read is what was
// taken of it.
type endless struct {
	net.Conn
	head []byte
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.head)
	e.head = e.head[n:]
	if n == 0 {
		n = len(p)
	}
	if e.read += n; e.read > 1<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}
func (*endless) Write(p []byte) (int, error)      { return len(p), nil }
func (*endless) SetDeadline(time.Time) error      { return nil }
func (*endless) SetWriteDeadline(time.Time) error { return nil }

// Who does not know the key is given no memory: a long message that it claims is not read.
func TestStrangersGetNoMemory(t *testing.T) {
	e := &endless{head: append(make([]byte, randomBytes), 0, 0xff, 0xff, 0xff)}
	c, err := Server(e, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Receive(64 << 20); !errors.Is(err, nd.ErrCorrupt) {
		t.Errorf("a first message that does not open: %v", err)
	}
	if e.read > 8<<10 { // the buffer of the reader, and the hello
		t.Errorf("%d bytes were read of who does not know the key", e.read)
	}
}

// A message that the owner has no memory for ends the stream.
func TestClaim(t *testing.T) {
	a, b := pair(t, key, key)
	var claimed int
	b.Claim = func(n int) bool { claimed += n; return n <= 100 }
	if err := a.Send(make([]byte, 50), time.Minute); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Receive(1000); err != nil || len(m) != 50 {
		t.Errorf("%d bytes, %v", len(m), err)
	}
	if err := a.Send(make([]byte, 500), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Receive(1000); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	if want := 16 + (50 + 16) + (500 + 16); claimed != want {
		t.Errorf("%d bytes were claimed, want %d", claimed, want)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 7})
	f.Add([]byte{0, 0, 0, 17, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range [][]byte{nil, key} {
			s := &tape{}
			s.read.Write(make([]byte, randomBytes))
			c, err := Server(s, k)
			if err != nil {
				t.Fatal(err)
			}
			s.read.Write(data)
			for {
				m, err := c.Receive(1000)
				if err != nil {
					break
				}
				if k != nil {
					t.Fatalf("%x opened", m)
				}
			}
		}
	})
}
