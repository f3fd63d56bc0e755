package agentapi

import (
	"context"
	"net"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// maxPath is the longest path of a socket, see unix(7).
const maxPath = 107

// Listen makes the socket that HEADRACE_AGENT names, of mode 0600 from the first
// moment: Linux takes the mode of the new file from the socket's own. The path
// must be free; it should be in a folder of the server's own.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, nd.Errorf(nd.ErrConfig, "the path of the agent's socket has %d bytes, at most %d are possible: %s", len(path), maxPath, path)
	}
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		if err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return failed
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "agent's socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}
