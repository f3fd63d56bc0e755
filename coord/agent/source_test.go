package agent

import (
	"net"
	"testing"
	"time"
)

// An agent that listens at one address of its host speaks from it, in streams as in packets:
// a rule of the network that lets that address pass lets all of it pass.
func TestSpeaksFromWhereItListens(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for listen, from := range map[string]string{"127.0.7.7:0": "127.0.7.7", ":0": "127.0.0.1"} {
		p, err := openPort(listen, &drops{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := dialStream(t.Context(), sourceOf(p), other.Addr().String(), messageStream, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		in, err := other.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := in.RemoteAddr().(*net.TCPAddr).IP.String(); got != from {
			t.Errorf("who listens at %s speaks from %s, wanted %s", listen, got, from)
		}
		_, _, _ = in.Close(), out.Close(), p.Close()
	}
}
