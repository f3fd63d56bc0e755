package agentapi

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// maxPath is the longest path of a socket, see unix(7).
const maxPath = 107

// Listen makes the socket that HEADRACE_AGENT names, of mode 0600 from the first
// moment: Linux takes the mode of the new file from the socket's own. The path
// must be free, see CheckStale; it should be in a folder of the server's own.
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

// CheckStale is nil where a path is a socket that nobody listens at: its process was killed, and
// another one may take the path. Else it says what is there; fs.ErrNotExist: nothing. Only a
// refused connection tells that nobody listens: one to a process that is stopped, or to that of
// another user, fails in other ways.
func CheckStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nd.Errorf(nd.ErrIO, "socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nd.Errorf(nd.ErrConfig, "%s is there and is no socket: name another path", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return nd.Errorf(nd.ErrConfig, "somebody listens at %s: name another path, or stop it", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return nd.Errorf(nd.ErrConfig, "somebody may listen at %s: name another path, or stop it: %w", path, err)
	}
	return nil
}
